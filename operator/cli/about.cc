// `version` and `completion`: the program itself.
#include <fmt/format.h>

#include "operator/cli/commands.h"
#include "operator/cli/exit_codes.h"

namespace ddp::cli {
namespace {

// Words are cut at blanks, not where bash cuts them: --wait=Running is one. What is offered for it
// must then be cut where bash cuts.
constexpr const char* kBash = R"(# kubectl-ddp in bash:   source <(kubectl-ddp completion bash)
_kubectl_ddp() {
  local line=${COMP_LINE:0:COMP_POINT} words=() found=()
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  mapfile -t found < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  local last=$((${#found[@]} - 1))
  ((last >= 0)) || return
  [[ ${found[last]} == :0 ]] && compopt -o default
  unset 'found[last]'
  COMPREPLY=("${found[@]}")
  if [[ ${words[-1]} == *=* && $COMP_WORDBREAKS == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#*=}")
  fi
}
complete -F _kubectl_ddp kubectl-ddp
)";

constexpr const char* kZsh = R"(#compdef kubectl-ddp
# kubectl-ddp in zsh:   source <(kubectl-ddp completion zsh), or this text as _kubectl-ddp in $fpath
_kubectl_ddp() {
  local -a found
  found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ ${found[-1]} == :0 ]]; then
    _files
    return
  fi
  compadd -- "${(@)found[1,-2]}"
}
if [[ ${funcstack[1]} == _kubectl-ddp ]]; then
  _kubectl_ddp "$@"
else
  compdef _kubectl_ddp kubectl-ddp
fi
)";

}  // namespace

int Version(const std::string& format) {
  if (format == kText) {
    fmt::print("kubectl-ddp {}\n", DDP_VERSION);
  } else {
    Print({{"version", DDP_VERSION}, {"apiVersion", api::kApiVersion}}, format);
  }
  return kExitOk;
}

int PrintCompletionScript(const std::string& shell) {
  fmt::print("{}", shell == "zsh" ? kZsh : kBash);
  return kExitOk;
}

}  // namespace ddp::cli
