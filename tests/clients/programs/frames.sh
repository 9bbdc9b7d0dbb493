# shellcheck shell=bash
# A client: ffmpeg brings each frame to the device and back, and prints the digest of what came back; then it scales frames there,
# of which the count is printed. $1: the folder of programs/segments.sh.
shows() {
    ffmpeg -hide_banner -nostdin -loglevel error -init_hw_device cuda=device -filter_hw_device device -f concat -safe 0 -i "$1/order" \
        -fps_mode passthrough "${@:2}"
}
shows "$1" -vf format=yuv420p,hwupload,hwdownload,format=yuv420p -f framehash -hash md5 - | grep -v '^#' |
    awk -F ', *' '{ print "frame_" NR ": " $NF }'
shows "$1" -vf format=yuv420p,hwupload,scale_cuda=w=iw/2:h=ih/2 -progress pipe:1 -f null - | grep '^frame=' | tail -n 1 |
    sed 's/frame=/scaled: /' | grep . || echo 'scaled: FAILED'
