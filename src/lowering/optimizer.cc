#include "src/lowering/optimizer.h"

#include <string>
#include <utility>

namespace stepcast::lowering {
namespace {

Kernel MemoryKernel(std::string name, std::int64_t elements, std::int64_t read_bytes,
                    std::int64_t written_bytes) {
  return {.name = std::move(name),
          .kind = KernelKind::kOptimizer,
          .data_type = DataType::kFp32,
          .read = Bytes(elements * read_bytes),
          .written = Bytes(elements * written_bytes)};
}

bool HasMasterWeights(const plan::Training& training) {
  return SizeOf(training.parameter_dtype) < SizeOf(DataType::kFp32);
}

Kernel GivenUpdate(const model::Model& model, std::int64_t elements) {
  const std::int64_t all = model.parameter_count();
  const std::int64_t whole = model::GivenOptimizerStep(model).picoseconds();
  __extension__ using Wide = __int128;
  const std::int64_t share =
      all == 0 ? whole
               : static_cast<std::int64_t>((static_cast<Wide>(elements) * whole + all - 1) / all);
  return {.name = "optimizer", .kind = KernelKind::kGiven, .given = Picoseconds(share)};
}

Kernel FusedUpdate(const plan::Training& training, std::int64_t elements) {
  // States are FP32: the parameter or its master copy, and the moments, each read and written.
  const std::int64_t moments = plan::MomentsOf(training.optimizer);
  const std::int64_t states = 4 * (1 + moments);
  const std::int64_t gradient = SizeOf(training.gradient_dtype);
  const std::int64_t cast = HasMasterWeights(training) ? SizeOf(training.parameter_dtype) : 0;
  return MemoryKernel(std::string("fused_") + Name(training.optimizer), elements, states + gradient,
                      states + cast);
}

std::vector<UpdateKernel> LambUpdate(const plan::Training& training, std::int64_t elements) {
  std::vector<UpdateKernel> kernels;
  const auto add = [&](const char* name, std::int64_t read, std::int64_t written) {
    kernels.push_back({.kernel = MemoryKernel(name, elements, read, written)});
  };
  const std::int64_t gradient = SizeOf(training.gradient_dtype);
  const std::int64_t copy = HasMasterWeights(training) ? SizeOf(training.parameter_dtype) : 0;
  if (training.precision == DataType::kFp16) add("amp_check_finite", gradient, gradient);
  add("lamb_gradient_norm", gradient, 0);
  add("lamb_parameter_norms", 4, 0);
  add("lamb_stage_1", gradient + 12, gradient + 8);
  add("lamb_update_norms", gradient, 0);
  add("lamb_stage_2", gradient + 4 + copy, 4 + copy);
  return kernels;
}

// One entry per multi-tensor kernel: bytes read and written per element, FP32.
std::vector<UpdateKernel> ForeachUpdate(const plan::Training& training, Version torch,
                                        std::int64_t elements) {
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
    const bool recent = torch >= Version{2, 1};
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
                                        Version torch, std::int64_t elements) {
  if (model.is_layer_list()) return {{.kernel = GivenUpdate(model, elements)}};
  if (training.optimizer == plan::Optimizer::kLamb) return LambUpdate(training, elements);
  return training.optimizer_implementation == plan::OptimizerImplementation::kFused
             ? std::vector<UpdateKernel>{{.kernel = FusedUpdate(training, elements)}}
             : ForeachUpdate(training, torch, elements);
}

}  // namespace stepcast::lowering
