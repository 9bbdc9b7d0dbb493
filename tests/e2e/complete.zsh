# complete.zsh SCRIPT LINE: what zsh, with the completions of SCRIPT, offers at the end of LINE, one match a line, then
# a tab and its description. A real zsh completes at a terminal of its own, into which this file is sourced as well;
# `compadd`, through which every match goes, writes it to a file. A SCRIPT named _poolcuda is found in its folder as an
# installed one is, another is sourced.
if [[ -z $offers ]]; then
    zmodload zsh/zpty
    offers=$(mktemp)
    zpty child zsh -f -i
    zpty -w child "offers=${(q)offers} script=${(q)1} line=${(q)2}; source ${(q)0}"
    while true; do # whoever has started this sees to it that it is not for ever
        zpty -r -t child ignored
        [[ -z $asked && -f $offers.ready ]] && zpty -w -n child $'\x14' && asked=yes
        [[ -f $offers.done ]] && break
        sleep 0.02
    done
    cat $offers
    [[ -f $offers.done ]]
    result=$?
    zpty -d child
    rm -f $offers $offers.*(N)
    exit $result
fi

PROMPT=
[[ $script != */_poolcuda ]] || fpath+=(${script:h})
autoload -Uz compinit && compinit -u -D
zstyle ':completion:*' list-grouped false
[[ $script == */_poolcuda ]] || source $script
compadd() {
    # Calls with these options fill arrays; the others add matches.
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
        return
    fi
    local -a hits texts
    local name i
    if (( $@[(I)-(l|)d] )); then
        name=${@[${@[(i)-(l|)d]}+1]}
        [[ $name == \(* ]] && eval "texts=$name" || texts=("${(@P)name}")
    fi
    builtin compadd -A hits -D texts "$@"
    for (( i = 1; i <= $#hits; i++ )); do
        print -r -- "$hits[i]"$'\t'"$texts[i]" >>$offers
    done
    builtin compadd "$@"
}
finished() { : >$offers.done }
comppostfuncs=(finished)
ask() { BUFFER=$line CURSOR=$#line; zle list-choices }
zle -N ask
bindkey '^T' ask
zle-line-init() { : >$offers.ready }
zle -N zle-line-init
