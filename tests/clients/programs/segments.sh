# shellcheck shell=bash
# Makes what programs/frames.sh shows, in the current folder: short pieces of video in three sizes, of whose changes a decoder
# learns from the pieces themselves, and the order in which they are shown.
set -e
for size in 640x360 320x180 480x270; do
    ffmpeg -hide_banner -loglevel error -y -nostdin -f lavfi -i testsrc=size=$size:rate=25:duration=0.12 -c:v mjpeg -flags +bitexact \
        -pix_fmt yuvj420p $size.nut
done
for _ in $(seq 40); do
    printf "file '%s'\n" 640x360.nut 320x180.nut 480x270.nut
done >order
