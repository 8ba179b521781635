#include "runtime/comm/private_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace ddp::rt::comm {
namespace {

class PrivateBuffer final : public Buffer {
 public:
  explicit PrivateBuffer(std::size_t bytes)
      : size_(bytes), data_(::operator new(std::max<std::size_t>(bytes, 1), kAlignment)) {
    std::memset(data_, 0, bytes);
  }
  ~PrivateBuffer() override { ::operator delete(data_, kAlignment); }
  void* data() override { return data_; }
  std::size_t size() const override { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  std::size_t size_;
  void* data_;
};

}  // namespace

std::unique_ptr<Buffer> AllocatePrivate(std::size_t bytes) {
  return std::make_unique<PrivateBuffer>(bytes);
}

}  // namespace ddp::rt::comm
