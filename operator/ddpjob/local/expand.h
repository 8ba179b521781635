// $(VAR) in commands and variables, by Kubernetes' rules: $(NAME) of a known name becomes its
// value, of an unknown one stays; $$ is a plain $, so that $$(NAME) stays $(NAME). Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ddp::job {

std::string Expand(std::string_view text, const std::map<std::string, std::string>& variables);

}  // namespace ddp::job
