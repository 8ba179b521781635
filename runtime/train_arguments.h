// The command line of `ddp-worker train`, known to both programs: ddp-worker checks it, ddp-train
// acts on it.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace ddp::rt {

// One of the two is given.
struct TrainArguments {
  std::string config_file;
  std::string config_env;  // name of the variable that holds the text
};

inline CLI::App* AddTrain(CLI::App& app, TrainArguments& arguments) {
  CLI::App* train = app.add_subcommand("train", "Train a model as one rank");
  auto* source = train->add_option_group("config", "Where the config (YAML) comes from");
  source->add_option("--config", arguments.config_file, "File with the config");
  source->add_option("--config-env", arguments.config_env,
                     "Name of the environment variable with the config");
  source->require_option(1);
  return train;
}

}  // namespace ddp::rt
