#include "operator/cli/complete.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "operator/cli/app.h"
#include "operator/cli/exit_codes.h"
#include "operator/kube/config.h"

namespace ddp::cli {
namespace {

const kube::Resource kNamespaces{"", "v1", "namespaces", "Namespace"};

// Somebody waits for the cursor to move.
constexpr std::chrono::milliseconds kPatience{1'500};

// Cobra's directives.
constexpr int kFiles = 0;
constexpr int kNoFiles = 4;

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_min() > 0; }

const CLI::Option* FindOption(const CLI::App& command, const std::string& word) {
  return word.starts_with("-") ? command.get_option_no_throw(word.substr(0, word.find('=')))
                               : nullptr;
}

class Completer {
 public:
  Completer(const std::vector<std::string>& words, const Lookups& lookups)
      : words_(words), lookups_(lookups), app_(MakeApp(line_)) {}

  Completion Run() {
    const std::string typed = words_.empty() ? "" : words_.back();
    ReadWordsBefore();
    if (command_ == nullptr) {
      return Matching(Commands(), typed);
    }
    if (waiting_ != nullptr) {
      return ValueOf(*waiting_, typed);
    }
    const size_t equals = typed.find('=');
    if (const CLI::Option* option = FindOption(*command_, typed);
        option != nullptr && equals != std::string::npos) {
      return AfterEquals(*option, typed.substr(0, equals + 1), typed.substr(equals + 1));
    }
    if (typed.starts_with("-")) {
      return Matching(OptionNames(), typed);
    }
    return Positional(typed);
  }

 private:
  void ReadWordsBefore() {
    for (size_t i = 0; i + 1 < words_.size(); ++i) {
      const std::string& word = words_[i];
      if (waiting_ != nullptr) {
        Take(*waiting_, word);
        waiting_ = nullptr;
      } else if (command_ == nullptr) {
        command_ = FindCommand(word);
      } else if (const CLI::Option* option = FindOption(*command_, word)) {
        const size_t equals = word.find('=');
        if (equals != std::string::npos) {
          Take(*option, word.substr(equals + 1));
        } else if (TakesValue(*option)) {
          waiting_ = option;
        }
      } else {
        ++positionals_;
      }
    }
  }

  // Which cluster to ask, if one is to be asked.
  void Take(const CLI::Option& option, const std::string& value) {
    if (option.check_name("--namespace")) {
      cluster_.name_space = value;
    } else if (option.check_name("--context")) {
      cluster_.context = value;
    } else if (option.check_name("--kubeconfig")) {
      cluster_.kubeconfig = value;
    }
  }

  std::vector<const CLI::App*> Subcommands() const {
    const CLI::App& app = *app_;
    return app.get_subcommands([](const CLI::App* /*command*/) { return true; });
  }
  const CLI::App* FindCommand(const std::string& name) const {
    for (const CLI::App* command : Subcommands()) {
      if (command->get_name() == name) {
        return command;
      }
    }
    return nullptr;
  }
  std::vector<std::string> Commands() const {
    std::vector<std::string> names;
    for (const CLI::App* command : Subcommands()) {
      names.push_back(command->get_name());
    }
    return names;
  }

  std::vector<std::string> OptionNames() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : command_->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
    return names;
  }

  Completion ValueOf(const CLI::Option& option, const std::string& typed) const {
    if (option.check_name("--filename") || option.check_name("--kubeconfig")) {
      return {{}, true};
    }
    if (option.check_name("--output")) {
      return Matching(command_->get_name() == "render"
                          ? std::vector<std::string>{kYaml, kJson}
                          : std::vector<std::string>{kText, kJson, kYaml},
                      typed);
    }
    if (option.check_name("--wait")) {
      return Matching(
          {"Running", "Succeeded", "Failed", "Suspended", "Pending", "Starting", "Restarting"},
          typed);
    }
    if (option.check_name("--namespace")) {
      return Matching(lookups_.namespaces(cluster_), typed);
    }
    if (option.check_name("--context")) {
      return Matching(lookups_.contexts(cluster_), typed);
    }
    if (option.check_name("--rank")) {
      return Matching({"0", "all"}, typed);
    }
    return {};
  }

  Completion AfterEquals(const CLI::Option& option, const std::string& front,
                         const std::string& typed) const {
    Completion completion = ValueOf(option, typed);
    for (std::string& candidate : completion.candidates) {
      candidate.insert(0, front);
    }
    return completion;
  }

  Completion Positional(const std::string& typed) const {
    if (positionals_ > 0) {
      return {};
    }
    if (command_->get_option_no_throw("shell") != nullptr) {
      return Matching({"bash", "zsh"}, typed);
    }
    if (command_->get_option_no_throw("job") != nullptr) {
      return Matching(lookups_.jobs(cluster_), typed);
    }
    return {};
  }

  static Completion Matching(const std::vector<std::string>& all, const std::string& typed) {
    Completion completion;
    std::copy_if(all.begin(), all.end(), std::back_inserter(completion.candidates),
                 [&typed](const std::string& one) { return one.starts_with(typed); });
    return completion;
  }

  const std::vector<std::string>& words_;
  const Lookups& lookups_;
  CommandLine line_;
  const std::unique_ptr<CLI::App> app_;
  const CLI::App* command_ = nullptr;
  const CLI::Option* waiting_ = nullptr;  // for its value
  size_t positionals_ = 0;
  ClusterOptions cluster_;
};

std::vector<std::string> NamesOf(const ClusterOptions& options, const kube::Resource& resource,
                                 bool namespaced) {
  auto cluster = Cluster::Connect(options);
  if (!cluster) {
    return {};
  }
  const auto page = cluster->client().WithDeadline(kPatience).List(
      resource, namespaced ? cluster->name_space() : "", {});
  std::vector<std::string> names;
  for (const json::Json& object : page ? page->items : std::vector<json::Json>{}) {
    names.push_back(json::GetString(object, {"metadata", "name"}));
  }
  return names;
}

}  // namespace

Completion Complete(const std::vector<std::string>& words, const Lookups& lookups) {
  return Completer(words, lookups).Run();
}

int PrintCandidates(const std::vector<std::string>& words) {
  const kube::Resource jobs{api::kGroup, api::kVersion, api::kPlural, api::kKind};
  const Completion completion = Complete(
      words, {[&jobs](const ClusterOptions& options) { return NamesOf(options, jobs, true); },
              [](const ClusterOptions& options) { return NamesOf(options, kNamespaces, false); },
              [](const ClusterOptions& options) {
                return kube::ListContexts(options.kubeconfig, std::getenv);
              }});
  for (const std::string& candidate : completion.candidates) {
    fmt::print("{}\n", candidate);
  }
  fmt::print(":{}\n", completion.files ? kFiles : kNoFiles);
  return kExitOk;
}

}  // namespace ddp::cli
