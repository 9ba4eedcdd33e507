#include <string>
#include <utility>

#include "src/lowering/update.h"

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
  // The optimizer's states are read and written. Without whole master weights the parameter is read
  // as well.
  const std::int64_t states = plan::OptimizerBytesPerParameter(training);
  const std::int64_t gradient = SizeOf(training.gradient_dtype);
  const std::int64_t parameter = SizeOf(training.parameter_dtype);
  const bool whole =
      plan::KeepsMasterWeights(training) && training.master_weights == plan::MasterWeights::kFp32;
  return MemoryKernel(std::string("fused_") + Name(training.optimizer), elements,
                      states + gradient + (whole ? 0 : parameter), states + parameter);
}

std::vector<UpdateKernel> LambUpdate(const plan::Training& training, std::int64_t elements) {
  std::vector<UpdateKernel> kernels;
  const auto add = [&](const char* name, std::int64_t read, std::int64_t written) {
    kernels.push_back({.kernel = MemoryKernel(name, elements, read, written)});
  };
  const std::int64_t gradient = SizeOf(training.gradient_dtype);
  const std::int64_t copy =
      plan::KeepsMasterWeights(training) ? SizeOf(training.parameter_dtype) : 0;
  if (training.precision == DataType::kFp16) add("amp_check_finite", gradient, gradient);
  add("lamb_gradient_norm", gradient, 0);
  add("lamb_parameter_norms", 4, 0);
  add("lamb_stage_1", gradient + 12, gradient + 8);
  add("lamb_update_norms", gradient, 0);
  add("lamb_stage_2", gradient + 4 + copy, 4 + copy);
  return kernels;
}

// One entry per multi-tensor kernel: bytes read and written per element. Moments and temporaries
// have the type of the updated values.
std::vector<UpdateKernel> ForeachUpdate(const plan::Training& training, Version torch,
                                        std::int64_t elements) {
  std::vector<UpdateKernel> kernels;
  const bool single = training.optimizer_implementation == plan::OptimizerImplementation::kSingle;
  const bool casts = plan::KeepsMasterWeights(training);
  const std::int64_t size = SizeOf(plan::UpdatedType(training));
  const std::int64_t read_gradient = casts ? size : SizeOf(training.gradient_dtype);
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
    add("cast_gradient", SizeOf(training.gradient_dtype), size, gradient);
  }
  if (training.optimizer == plan::Optimizer::kAdamW) {
    const bool recent = torch >= Version{2, 1};
    add("mul(weight_decay)", size, size);
    if (recent) {
      add("lerp(exp_avg)", size + read_gradient, size, {}, gradient);
    } else {
      add("mul(exp_avg)", size, size);
      add("add(exp_avg)", size + read_gradient, size, {}, gradient);
    }
    add("mul(exp_avg_sq)", size, size);
    add("addcmul(exp_avg_sq)", size + read_gradient, size, {}, gradient);
    add("sqrt(exp_avg_sq)", size, size, Temporary::kRoot);
    // A step with a result tensor of its own reads the result of the step before.
    const std::optional<Temporary> root = Temporary::kRoot, denominator = Temporary::kDenominator;
    add("div(bias_correction)", size, size, single ? denominator : std::nullopt, root);
    if (single) {
      add("add(epsilon)", size, size, {}, denominator);
    } else {
      add("add(epsilon)", size, size, recent ? std::nullopt : denominator, root);
    }
    add("addcdiv(parameter)", 3 * size, size, {}, single || !recent ? denominator : root);
  } else {
    add("mul(momentum)", size, size);
    add("add(gradient)", size + read_gradient, size, {}, gradient);
    add("add(parameter)", 2 * size, size);
  }
  if (casts) add("cast_parameter", size, SizeOf(training.parameter_dtype));
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
