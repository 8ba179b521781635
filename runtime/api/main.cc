#include <exception>

#include "ddp/error.h"
#include "ddp/process_group.h"
#include "runtime/base/log.h"

namespace ddp {
namespace {

void TellOthers(const std::string& reason) {
  rt::Log(rt::Level::kError, "{}", reason);
  if (IsInitialized()) {
    Abort(reason);
    DestroyProcessGroup();
  }
}

}  // namespace

int Main(const std::function<void()>& body) {
  try {
    body();
    return static_cast<int>(ExitCode::kOk);
  } catch (const Error& e) {
    TellOthers(e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    TellOthers(e.what());
    return static_cast<int>(ExitCode::kSoftware);
  }
}

}  // namespace ddp
