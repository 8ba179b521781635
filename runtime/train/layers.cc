#include "runtime/train/layers.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <optional>

namespace ddp::rt::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Below this many places in the output of a convolution its weight's gradient, a product with a
// short inner dimension, is quicker as one product over the images' columns than in oneDNN.
constexpr int64_t kFewPlaces = 16;

bool Direct(const at::Tensor& weight) {
  return at::GradMode::is_enabled() && weight.is_cpu() && weight.scalar_type() == at::kFloat &&
         weight.is_leaf() && weight.requires_grad() && weight.grad().defined() &&
         weight.grad().is_contiguous() && !at::autocast::is_autocast_enabled(at::kCPU);
}

// weight.grad of a saved weight, as a matrix.
at::Tensor Rows(const at::Tensor& gradient) { return gradient.view({gradient.size(0), -1}); }

// Products of fewer multiplications are as quick in BLAS, and begin sooner.
constexpr int64_t kSmallProduct = int64_t{1} << 22;

// oneDNN's product of a matrix with a transposed one, where this libtorch has it.
const auto& FindProduct() {
  using Signature = at::Tensor(const at::Tensor& x, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias, std::string_view attribute,
                               c10::List<std::optional<at::Scalar>> scalars,
                               std::optional<std::string_view> algorithm);
  static const auto kFound = []() -> std::optional<c10::TypedOperatorHandle<Signature>> {
    const auto operation =
        c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!operation || !operation->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      return std::nullopt;
    }
    return operation->typed<Signature>();
  }();
  return kFound;
}

// x·weightᵀ + bias. oneDNN is up to a tenth quicker than BLAS at a transformer's shapes.
at::Tensor Product(const at::Tensor& x, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias) {
  const auto& product = FindProduct();
  if (!product || x.numel() * weight.size(0) < kSmallProduct) {
    return at::linear(x, weight, bias);
  }
  return product->call(x, weight, bias, "none", c10::List<std::optional<at::Scalar>>(),
                       std::nullopt);
}

struct LinearFunction : Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return Product(x, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor gradient = gradients[0].reshape({-1, weight.size(0)});
    at::Tensor of_x;
    if (context->needs_input_grad(0)) {
      of_x = Product(gradient, weight.t(), std::nullopt).view(x.sizes());
    }
    weight.grad().addmm_(gradient.t(), x.reshape({-1, weight.size(1)}));
    const bool bias = context->saved_data["bias"].toBool();
    return {of_x, at::Tensor(), bias ? gradient.sum(0) : at::Tensor()};
  }
};

struct Shape {
  int64_t images, channels, rows, columns, kernel, stride, out_rows, out_columns;
};

// One row of outputs' look at one row of inputs (null: above or below the image), `shift` columns
// to the right; outside are zeros.
float* AppendRow(const float* row, int64_t shift, const Shape& s, float* out) {
  int64_t first = 0;
  int64_t end = 0;
  if (row != nullptr && shift < s.columns) {
    first = std::max<int64_t>(0, (s.stride - 1 - shift) / s.stride);
    end = std::max(first, std::min(s.out_columns, (s.columns - 1 - shift) / s.stride + 1));
  }
  std::fill(out, out + first, 0.0F);
  for (int64_t i = first; i < end; ++i) {
    out[i] = row[i * s.stride + shift];
  }
  std::fill(out + end, out + s.out_columns, 0.0F);
  return out + s.out_columns;
}

// The values that each place of the output looked at: [channels × kernel × kernel, images ×
// places].
at::Tensor Columns(const at::Tensor& x, const Shape& s) {
  const int64_t places = s.out_rows * s.out_columns;
  at::Tensor columns =
      at::empty({s.channels * s.kernel * s.kernel, s.images * places}, x.options());
  const auto* in = x.const_data_ptr<float>();
  auto* out = columns.mutable_data_ptr<float>();
  const int64_t padding = s.kernel / 2;
  for (int64_t line = 0; line < columns.size(0); ++line) {
    const int64_t channel = line / (s.kernel * s.kernel);
    const int64_t down = line / s.kernel % s.kernel - padding;
    const int64_t right = line % s.kernel - padding;
    for (int64_t image = 0; image < s.images; ++image) {
      const float* const plane = in + (image * s.channels + channel) * s.rows * s.columns;
      for (int64_t row = 0; row < s.out_rows; ++row) {
        const int64_t from = row * s.stride + down;
        const bool inside = from >= 0 && from < s.rows;
        out = AppendRow(inside ? plane + from * s.columns : nullptr, right, s, out);
      }
    }
  }
  return columns;
}

void AddWeightGradient(const at::Tensor& x, const at::Tensor& gradient, int64_t stride,
                       const at::Tensor& to) {
  const Shape shape{.images = x.size(0),
                    .channels = x.size(1),
                    .rows = x.size(2),
                    .columns = x.size(3),
                    .kernel = to.size(2),
                    .stride = stride,
                    .out_rows = gradient.size(2),
                    .out_columns = gradient.size(3)};
  const at::Tensor outputs = gradient.transpose(0, 1).reshape({gradient.size(1), -1});
  Rows(to).addmm_(outputs, Columns(x.contiguous(), shape).t());
}

struct ConvolutionFunction : Function<ConvolutionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            int64_t stride) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    return at::conv2d(x, weight, {}, stride, weight.size(2) / 2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const int64_t stride = context->saved_data["stride"].toInt();
    const at::Tensor gradient = gradients[0].contiguous();
    const int64_t padding = weight.size(2) / 2;
    const bool few = gradient.size(2) * gradient.size(3) <= kFewPlaces;
    const auto result = at::convolution_backward(
        gradient, x, weight, /*bias_sizes=*/std::nullopt, {stride, stride}, {padding, padding},
        /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1,
        {context->needs_input_grad(0), !few, false});
    if (few) {
      AddWeightGradient(x, gradient, stride, weight.grad());
    }
    return {std::get<0>(result), std::get<1>(result), at::Tensor()};
  }
};

}  // namespace

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!Direct(weight)) {
    return at::linear(x, weight, bias);
  }
  return LinearFunction::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

at::Tensor Convolve(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  return Direct(weight) ? ConvolutionFunction::apply(x, weight, stride)
                        : at::conv2d(x, weight, {}, stride, weight.size(2) / 2);
}

}  // namespace ddp::rt::train
