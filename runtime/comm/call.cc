#include "runtime/comm/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ddp::rt::comm {
namespace {

const char* Name(Kind kind) {
  constexpr const char* kNames[] = {"all-reduce",     "broadcast", "all-gather",
                                    "reduce-scatter", "barrier",   "allocation"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

Signature SignatureOf(const Call& call) {
  Signature s;
  s.sequence = call.sequence;
  s.count = call.count;
  s.kind = call.kind;
  s.type = call.type;
  s.op = call.op;
  s.root = call.root;
  std::copy_n(call.name.data(), std::min(call.name.size(), s.name.size() - 1), s.name.data());
  return s;
}

bool Same(const Signature& a, const Signature& b) {
  return a.sequence == b.sequence && a.count == b.count && a.kind == b.kind && a.type == b.type &&
         a.op == b.op && a.root == b.root && a.name == b.name;
}

std::string Describe(const Signature& s) {
  std::string call = fmt::format("{} #{} '{}'", Name(s.kind), s.sequence, s.name.data());
  switch (s.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter:
      return fmt::format("{} ({} x {}, {})", call, s.count, Name(s.type), Name(s.op));
    case Kind::kBroadcast:
      return fmt::format("{} ({} bytes from rank {})", call, s.count, s.root);
    case Kind::kAllGather:
    case Kind::kAllocate:
      return fmt::format("{} ({} bytes)", call, s.count);
    case Kind::kBarrier:
      break;
  }
  return call;
}

std::string ShortName(const Call& call) {
  return fmt::format("{} #{} '{}'", Name(call.kind), call.sequence, call.name);
}

Part PartOf(std::uint64_t count, std::size_t element_size, int rank, int world_size) {
  constexpr std::uint64_t kCacheLine = 64;
  const std::uint64_t step = kCacheLine / element_size;
  const auto world = static_cast<std::uint64_t>(world_size);
  const std::uint64_t share = ((count + world - 1) / world + step - 1) / step * step;
  const std::uint64_t begin = std::min(count, share * static_cast<std::uint64_t>(rank));
  return {begin, std::min(share, count - begin)};
}

}  // namespace ddp::rt::comm
