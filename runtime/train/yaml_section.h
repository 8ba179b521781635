// Reads the keys of one mapping of a YAML document into variables, with errors that say line, key
// and what is expected. The only user of yaml-cpp in the runtime; used while parsing, then dropped.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::rt::train {

// A document's root; Error(kConfig) unless it is one YAML document.
YAML::Node LoadDocument(std::string_view yaml, const std::string& source);

class YamlSection {
 public:
  // `name` is the section's path for errors, "" for the root. A null node is an empty section.
  YamlSection(const YAML::Node& node, std::string name, std::string source);

  // A key that is absent leaves the variable alone.
  void Read(const char* key, int64_t low, int64_t high, int64_t& value);
  void Read(const char* key, int low, int high, int& value);
  void Read(const char* key, uint64_t& value);
  void Read(const char* key, double low, double high, double& value);
  void Read(const char* key, bool& value);
  // Any text but "".
  void Read(const char* key, std::string& value);
  void ReadChoice(const char* key, const std::vector<std::string>& choices, std::string& value);
  YamlSection Sub(const char* key);

  // Refuses a key that makes no sense with the others: it must be absent.
  void Forbid(const char* key, const std::string& why);
  // For values that are wrong together: "SOURCE:LINE: 'KEY' WHAT", at the key or at the section.
  [[noreturn]] void Refuse(const char* key, const std::string& what) const;
  // Refuses keys that nobody has read, and names the nearest that exists.
  void Finish() const;

 private:
  std::optional<YAML::Node> Take(const char* key);
  // Take, for a scalar: anything else is an error that says what is wanted.
  std::optional<YAML::Node> TakeScalar(const char* key, const std::string& wanted);
  [[noreturn]] void FailValue(const char* key, const YAML::Node& at,
                              const std::string& wanted) const;
  [[noreturn]] void Fail(const YAML::Node& at, const std::string& what) const;
  std::string Path(std::string_view key) const;

  YAML::Node node_;
  std::string name_;
  std::string source_;
  std::vector<std::string> known_;
};

}  // namespace ddp::rt::train
