// Finds the data folder (or file) that a config names. Pure but for the look at the file system.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddp::rt::data {

// Where relative paths are looked up, in this order.
struct DataPlaces {
  std::optional<std::string> data_dir;  // DDP_DATA_DIR
  std::filesystem::path program_dir;    // folder of this program: ../share/ddp/data
};

// DDP_DATA_DIR and the folder of the running program.
DataPlaces PlacesOfThisProcess();

// An absolute path is taken as it is. Error(kNoInput) lists the places looked at.
std::filesystem::path FindData(const std::string& path, const DataPlaces& places);

}  // namespace ddp::rt::data
