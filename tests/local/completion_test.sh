#!/usr/bin/env bash
# The completion scripts in the shells that they are for.   completion_test.sh FOLDER_OF_KUBECTL_DDP
set -euo pipefail
bin=$1
failed=0
expect() {  # WHAT GOT WANTED
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    printf 'FAILED: %s\n  wanted %q\n  got    %q\n' "$1" "$3" "$2"
    failed=1
  fi
}

# complete_in_bash LINE: what bash would offer at the end of it, one a line.
complete_in_bash() {
  PATH=$bin:$PATH bash --norc --noprofile -c '
    source <(kubectl-ddp completion bash)
    compopt() { echo "compopt $*"; }  # works only while bash itself completes
    complete -p kubectl-ddp >/dev/null
    COMP_LINE=$1 COMP_POINT=${#1}
    _kubectl_ddp
    ((${#COMPREPLY[@]} == 0)) || printf "%s\n" "${COMPREPLY[@]}"' bash "$1"
}
expect 'bash: commands' "$(complete_in_bash 'kubectl-ddp re' | paste -sd' ')" 'render resume restart'
expect 'bash: options' "$(complete_in_bash 'kubectl-ddp logs mnist --ti')" '--timestamps'
expect 'bash: values' "$(complete_in_bash 'kubectl-ddp status mnist -o ' | paste -sd' ')" 'text json yaml'
expect 'bash: a value behind =' "$(complete_in_bash 'kubectl-ddp status mnist --wait=Ru')" 'Running'
expect 'bash: files' "$(complete_in_bash 'kubectl-ddp run -f ')" 'compopt -o default'

if ! command -v zsh >/dev/null; then
  echo 'zsh is not here: not tested in it'
  exit $failed
fi
# complete_in_zsh WORD...: the last word is the one that is being typed.
complete_in_zsh() {
  PATH=$bin:$PATH zsh -f -c '
    compdef() { print -r -- "$@" >|/dev/null; }
    source <(kubectl-ddp completion zsh)
    compadd() { shift; (( $# == 0 )) || print -rl -- "$@"; }
    _files() { print files; }
    words=("$@") CURRENT=$#
    _kubectl_ddp' zsh "$@"
}
expect 'zsh: commands' "$(complete_in_zsh kubectl-ddp re | paste -sd' ')" 'render resume restart'
expect 'zsh: options' "$(complete_in_zsh kubectl-ddp logs mnist --ti)" '--timestamps'
expect 'zsh: values' "$(complete_in_zsh kubectl-ddp status mnist -o '' | paste -sd' ')" 'text json yaml'
expect 'zsh: a value behind =' "$(complete_in_zsh kubectl-ddp status mnist --wait=Ru)" '--wait=Running'
expect 'zsh: files' "$(complete_in_zsh kubectl-ddp run -f '')" 'files'
exit $failed
