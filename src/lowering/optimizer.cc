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

SizedKernel FusedUpdate(const plan::Training& training, const Amount& elements) {
  // States are FP32: the parameter or its master copy, and the moments, each read and written.
  const std::int64_t moments = training.optimizer == plan::Optimizer::kAdamW ? 2 : 1;
  const std::int64_t states = 4 * (1 + moments);
  const std::int64_t gradient = SizeOf(training.gradient_dtype);
  const std::int64_t cast = HasMasterWeights(training) ? SizeOf(training.parameter_dtype) : 0;
  return MemoryKernel(std::string("fused_") + Name(training.optimizer), elements, states + gradient,
                      states + cast);
}

// One entry per multi-tensor kernel: bytes read and written per element, FP32.
std::vector<UpdateKernel> ForeachUpdate(const plan::Training& training, plan::Version torch,
                                        const Amount& elements) {
  std::vector<UpdateKernel> kernels;
  const bool single = training.optimizer_implementation == plan::OptimizerImplementation::kSingle;
  const bool casts = HasMasterWeights(training);
  const std::string prefix = single ? "" : "foreach_";
  const auto add = [&](const char* name, std::int64_t read, std::int64_t written,
                       std::optional<Temporary> makes = {},
                       std::optional<Temporary> works_on = {}) {
    kernels.push_back({.kernel = MemoryKernel(prefix + name, elements, read, written),
                       .makes = makes,
                       .works_on = works_on});
  };
  std::optional<Temporary> gradient;
  if (casts) {
    gradient = Temporary::kGradient;
    add("cast_gradient", SizeOf(training.gradient_dtype), 4, gradient);
  }
  if (training.optimizer == plan::Optimizer::kAdamW) {
    const bool recent = torch >= plan::Version{2, 1};
    add("mul(weight_decay)", 4, 4);
    if (recent) {
      add("lerp(exp_avg)", 8, 4, {}, gradient);
    } else {
      add("mul(exp_avg)", 4, 4);
      add("add(exp_avg)", 8, 4, {}, gradient);
    }
    add("mul(exp_avg_sq)", 4, 4);
    add("addcmul(exp_avg_sq)", 8, 4, {}, gradient);
    add("sqrt(exp_avg_sq)", 4, 4, Temporary::kRoot);
    // Where the result of a step is a tensor of its own, it reads the one before.
    const std::optional<Temporary> root = Temporary::kRoot, denominator = Temporary::kDenominator;
    add("div(bias_correction)", 4, 4, single ? denominator : std::nullopt, root);
    if (single) {
      add("add(epsilon)", 4, 4, {}, denominator);
    } else {
      add("add(epsilon)", 4, 4, recent ? std::nullopt : denominator, root);
    }
    add("addcdiv(parameter)", 12, 4, {}, single || !recent ? denominator : root);
  } else {
    add("mul(momentum)", 4, 4);
    add("add(gradient)", 8, 4, {}, gradient);
    add("add(parameter)", 8, 4);
  }
  if (casts) add("cast_parameter", 4, SizeOf(training.parameter_dtype));
  return kernels;
}

}  // namespace

std::vector<UpdateKernel> UpdateKernels(const model::Model& model, const plan::Training& training,
                                        plan::Version torch, const Amount& elements) {
  if (model.is_layer_list()) return {{.kernel = GivenUpdate(model, elements)}};
  return training.optimizer_implementation == plan::OptimizerImplementation::kFused
             ? std::vector<UpdateKernel>{{.kernel = FusedUpdate(training, elements)}}
             : ForeachUpdate(training, torch, elements);
}

}  // namespace stepcast::lowering
