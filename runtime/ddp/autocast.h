// While one lives, operators that gain from it compute in 16 bits on this thread: matrix products
// and convolutions of float32 inputs, as torch.autocast does. For the forward pass and the loss;
// backward needs none. Not thread-safe: a guard of the thread that made it.
#pragma once

#include <ATen/autocast_mode.h>

namespace ddp::rt {

class Autocast {
 public:
  // bfloat16 works on every device; float16 wants a GPU and a LossScaler.
  explicit Autocast(at::DeviceType device, at::ScalarType type = at::kBFloat16, bool enabled = true)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        type_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_dtype(device_, type);
    at::autocast::set_autocast_enabled(device_, enabled);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    // Weights that were cast for this pass would be stale after the optimizer's step.
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, type_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType device_;
  const bool was_enabled_;
  const at::ScalarType type_before_;
};

}  // namespace ddp::rt
