#include "src/lowering/optimizer.h"

#include <string>
#include <utility>

namespace stepcast::lowering {
namespace {

SizedKernel MemoryKernel(std::string name, const Amount& elements, std::int64_t read_bytes,
                         std::int64_t written_bytes) {
  return {.kernel = {.name = std::move(name),
                     .kind = KernelKind::kOptimizer,
                     .data_type = DataType::kFp32},
          .read = elements * read_bytes,
          .written = elements * written_bytes};
}

bool HasMasterWeights(const plan::Training& training) {
  return SizeOf(training.parameter_dtype) < SizeOf(DataType::kFp32);
}

SizedKernel GivenUpdate(const model::Model& model, const Amount& elements) {
  const std::int64_t all = model.parameter_count();
  const std::int64_t whole = model::GivenOptimizerStep(model).picoseconds();
  return {.kernel = {.name = "optimizer", .kind = KernelKind::kGiven},
          .given = all == 0 ? Amount(whole) : Proportion(elements, whole, all)};
}

std::vector<SizedKernel> FusedUpdate(const plan::Training& training, const Amount& elements) {
  // States are FP32: the parameter or its master copy, and the moments, each read and written.
  const std::int64_t moments = training.optimizer == plan::Optimizer::kAdamW ? 2 : 1;
  const std::int64_t states = 4 * (1 + moments);
  const std::int64_t gradient = SizeOf(training.gradient_dtype);
  const std::int64_t cast = HasMasterWeights(training) ? SizeOf(training.parameter_dtype) : 0;
  return {MemoryKernel(std::string("fused_") + Name(training.optimizer), elements,
                       states + gradient, states + cast)};
}

// One entry per multi-tensor kernel: bytes read and written per element, FP32.
std::vector<SizedKernel> ForeachUpdate(const plan::Training& training, const Amount& elements) {
  std::vector<SizedKernel> kernels;
  const bool single = training.optimizer_implementation == plan::OptimizerImplementation::kSingle;
  const std::string prefix = single ? "" : "foreach_";
  const auto add = [&](const char* name, std::int64_t read, std::int64_t written) {
    kernels.push_back(MemoryKernel(prefix + name, elements, read, written));
  };
  if (HasMasterWeights(training)) add("cast_gradient", SizeOf(training.gradient_dtype), 4);
  if (training.optimizer == plan::Optimizer::kAdamW) {
    add("mul(weight_decay)", 4, 4);
    add("lerp(exp_avg)", 8, 4);
    add("mul(exp_avg_sq)", 4, 4);
    add("addcmul(exp_avg_sq)", 8, 4);
    add("sqrt(exp_avg_sq)", 4, 4);
    add("div(bias_correction)", 4, 4);
    add("add(epsilon)", 4, 4);
    add("addcdiv(parameter)", 12, 4);
  } else {
    add("mul(momentum)", 4, 4);
    add("add(gradient)", 8, 4);
    add("add(parameter)", 8, 4);
  }
  if (HasMasterWeights(training)) add("cast_parameter", 4, SizeOf(training.parameter_dtype));
  return kernels;
}

}  // namespace

std::vector<SizedKernel> UpdateKernels(const model::Model& model, const plan::Training& training,
                                       const Amount& elements) {
  if (model.is_layer_list()) return {GivenUpdate(model, elements)};
  return training.optimizer_implementation == plan::OptimizerImplementation::kFused
             ? FusedUpdate(training, elements)
             : ForeachUpdate(training, elements);
}

std::vector<Kernel> UpdateKernels(const model::Model& model, const plan::Training& training,
                                  std::int64_t elements) {
  std::vector<Kernel> kernels;
  for (SizedKernel& sized : UpdateKernels(model, training, Amount(elements))) {
    Kernel& kernel = kernels.emplace_back(std::move(sized.kernel));
    kernel.read = Bytes(sized.read.value());
    kernel.written = Bytes(sized.written.value());
    kernel.given = Picoseconds(sized.given.value());
  }
  return kernels;
}

std::int64_t TemporaryBytesPerParameter(const plan::Training& training) {
  if (training.optimizer_implementation == plan::OptimizerImplementation::kFused) return 0;
  const bool single = training.optimizer_implementation == plan::OptimizerImplementation::kSingle;
  const std::int64_t root = training.optimizer == plan::Optimizer::kAdamW ? (single ? 8 : 4) : 0;
  return root + (HasMasterWeights(training) && !single ? 4 : 0);
}

std::int64_t CastGradientBytesPerParameter(const plan::Training& training) {
  return HasMasterWeights(training) &&
                 training.optimizer_implementation == plan::OptimizerImplementation::kSingle
             ? 4
             : 0;
}

}  // namespace stepcast::lowering
