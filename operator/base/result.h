// Expected failures as values: Result<T> holds a T or an Error, under std::expected's names so that
// it can be swapped for it one day. Not thread-safe by itself, like any value.
//
//   Result<Config> Load(path);
//   auto config = Load(path);
//   if (!config) { return config.error(); }
//   Use(*config);
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace ddp::base {

// Chosen by what the caller must do, as absl::StatusCode is.
enum class ErrorCode {
  kInvalid,          // the input is wrong: its author must change it, do not retry
  kNotFound,         // not there: for a delete that is success
  kAlreadyExists,    // a name is taken: look whose it is
  kConflict,         // somebody wrote in between: read again, decide again
  kForbidden,        // no permission: loud, long backoff
  kUnauthorized,     // credentials refused: read them again, once
  kGone,             // the history asked for is compacted: list again
  kTooManyRequests,  // wait as told, then retry
  kUnavailable,      // network or server trouble: back off and retry
  kDeadline,         // took longer than allowed
  kCancelled,        // we were asked to stop
  kInternal,         // a bug, ours or theirs
};

// "kConflict" → "conflict": for logs and metric labels.
const char* Name(ErrorCode code);

// `message` is a sentence for people: what, where, and what to do.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

// For functions that return nothing but may fail: Result<Done> with `return Done{};`.
struct Done {};

// Ends the program with a message; for DDP_CHECK and for reading the wrong side of a Result.
[[noreturn]] void Die(const char* file, int line, const std::string& message);

template <typename T, typename E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {
  }  // NOLINT(google-explicit-constructor): `return value;`
  Result(E error)
      : state_(std::in_place_index<1>, std::move(error)) {
  }  // NOLINT(google-explicit-constructor): `return error;`

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return Check(), std::get<0>(state_); }
  const T& value() const& { return Check(), std::get<0>(state_); }
  // By value, so that `for (auto& x : F().value())` does not dangle.
  T value() && { return Check(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const E& error() const {
    if (has_value()) {
      Die(__FILE__, __LINE__, "error() of a Result that holds a value");
    }
    return std::get<1>(state_);
  }

 private:
  void Check() const {
    if (!has_value()) {
      Die(__FILE__, __LINE__, "value() of a Result that holds an error");
    }
  }
  std::variant<T, E> state_;
};

}  // namespace ddp::base

// Broken invariants only, never user input: prints and aborts.
#define DDP_CHECK(condition, message)                                                          \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      ::ddp::base::Die(__FILE__, __LINE__, std::string("CHECK(" #condition ") ") + (message)); \
    }                                                                                          \
  } while (false)
