// Reads the fields of one JSON object of a DDPJob and notes what is wrong with them: a wrong type,
// a field that the schema does not know. Internal to operator/api. Refers to the object and to the
// list of problems: lives no longer than they.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/parse.h"

namespace ddp::api {

class ObjectReader {
 public:
  // The object at `field` of `parent`, or `parent` itself for ""; `path` is its place in the
  // schema.
  ObjectReader(const Json& parent, std::string_view field, std::string_view path,
               std::vector<Problem>& problems);
  // An item of a list: `schema_path` without, `shown_path` with the index.
  ObjectReader(std::vector<Problem>& problems, const Json& item, std::string_view schema_path,
               std::string shown_path);

  bool present() const { return object_ != nullptr; }
  const Json& object() const { return *object_; }
  const std::string& path() const { return path_; }

  // Null when the field is absent or null.
  const Json* Get(std::string_view field) const;
  // Each leaves `out` as it is when the field is absent.
  void Int(std::string_view field, int& out);
  void Int(std::string_view field, std::optional<int>& out);
  void Text(std::string_view field, std::string& out);
  void Bool(std::string_view field, bool& out);
  void Ints(std::string_view field, std::vector<int>& out);
  void Texts(std::string_view field, std::vector<std::string>& out);
  // One of `values`, by their Name().
  template <typename Value>
  void Enum(std::string_view field, std::span<const Value> values, Value& out) {
    std::string text;
    Text(field, text);
    std::string known;
    for (const Value value : values) {
      if (text == Name(value)) {
        out = value;
        return;
      }
      known += (known.empty() ? "" : ", ") + std::string(Name(value));
    }
    if (Get(field) != nullptr && Get(field)->is_string()) {
      Note(field, "must be one of " + known + ", not '" + text + "'");
    }
  }
  void Require(std::string_view field, std::string_view what);
  void Note(std::string_view field, std::string reason);  // "" for the object itself

 private:
  void Take(const Json& found);
  void CheckFields();
  std::optional<int> ToInt(const Json& value, const std::string& field);
  // The list at a field; null, with a note, when it is something else.
  const Json* ListAt(std::string_view field);

  const Json* object_ = nullptr;
  std::string schema_path_;
  std::string path_;
  std::vector<Problem>& problems_;
};

}  // namespace ddp::api
