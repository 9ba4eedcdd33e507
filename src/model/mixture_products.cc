// The computation of a rank's experts.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/mixture_operators.h"
#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

using Pieces = std::vector<LayerTape::Piece>;

// deepspeed/moe/ep_kernels.py, TOKEN_GROUP_ALIGN_SIZE_M.
constexpr std::int64_t kAutoEpRows = 8;

}  // namespace

void MixtureOperators::RunGrouped(bool forward, const Kernel& one, const Pieces& reads,
                                  const Pieces& writes, std::vector<int> gradients,
                                  const std::vector<int>& parameters) {
  const std::int64_t local = local_experts();
  Kernel kernel = one;
  std::int64_t launches = local;
  if (options_.products == ExpertProducts::kGrouped) {
    kernel.batch = local;
    kernel.grouped = true;
    kernel.flops *= local;
    kernel.model_flops *= local;
    kernel.read = local * kernel.read;
    kernel.written = local * kernel.written;
    launches = 1;
  } else if (options_.products == ExpertProducts::kStreams) {
    kernel.together = std::min<std::int64_t>(local, kStreamsOfExperts);
  }
  for (std::int64_t i = 0; i < launches; ++i) {
    // transformer_engine/pytorch/module/grouped_linear.py @ d0067d0 loops in Python over the
    // experts' weights, quantizers and main gradients. Steps that the host limits agree best with
    // 36 to 60 us for each further expert, so the time of an operator of autograd stands for it.
    if (i > 0 && options_.products == ExpertProducts::kStreams) {
      kernel.issuer = Issuer::kAutograd;
    }
    const bool last = i + 1 == launches;
    if (forward) {
      tape_.Run(kernel, reads, writes, parameters);
    } else {
      tape_.RunBackward(kernel, reads, writes, last ? std::move(gradients) : std::vector<int>(),
                        parameters);
    }
  }
}

Kernel MixtureOperators::ExpertProduct(std::string name, std::int64_t m, std::int64_t n,
                                       std::int64_t k, ProductLayout layout) const {
  Kernel kernel = operators_.Gemm(std::move(name), m, n, k, layout);
  kernel.model_flops = std::llround(static_cast<double>(kernel.model_flops) * share_of_model());
  if (quantizes() || !operators_.quantizes()) return kernel;
  kernel.data_type = operators_.element_;
  kernel.read = operators_.BytesOfElements(m * k + k * n);
  return kernel;
}

// megatron/core/fp8_utils.py, get_fp8_align_size: 16 rows, or 32 with the block scales of MXFP8 and
// NVFP4. AutoEP's permutation pads to 8, also in 16 bits.
std::int64_t MixtureOperators::RowsOfExpert(std::int64_t rows) const {
  const std::int64_t each = (rows + local_experts() - 1) / local_experts();
  if (!quantizes() && options_.implementation != ExpertImplementation::kAutoEp) return each;
  const std::int64_t multiple = !quantizes()                      ? kAutoEpRows
                                : work_.compute == DataType::kFp8 ? 16
                                                                  : 32;
  return (each + multiple - 1) / multiple * multiple;
}

Operand MixtureOperators::Padded(const Operand& x, std::string_view name) {
  return quantizes() && !options_.fused_rows ? operators_.Copies(x, name, 1) : x;
}

// Every expert has the same number of rows. `completes`: its backward completes the parameters'
// gradients.
Operand MixtureOperators::GroupedLinear(const Operand& x, std::string_view name, std::int64_t out,
                                        const ModulePositions& parameters, bool completes) {
  const std::int64_t each = RowsOfExpert(x.tokens);
  const std::int64_t in = x.width;
  const Operand y = operators_.Make(Joined(name, " output"), out, x.tokens);
  const bool trained = parameters.weight >= 0;
  std::optional<QuantizedCopies> low;
  if (quantizes()) {
    operators_.casts_inside_ = options_.fused_rows;
    low = operators_.Quantized(x, name, !trained);
    operators_.casts_inside_ = false;
  }
  const Value kept = low ? low->columns : x.value;
  if (trained) tape_.Keep(kept);
  RunGrouped(true, ExpertProduct(std::string(name), each, out, in, ProductLayout::kForward),
             {low ? low->rows : x.value}, {y.value}, {}, parameters.all());
  tape_.OnBackward([=, this, name = std::string(name)] {
    const Value gradient = tape_.GradientOf(y.value);
    QuantizedCopies gradients{.rows = gradient, .columns = gradient};
    if (low) {
      operators_.casts_inside_ = options_.fused_rows;
      gradients =
          operators_.QuantizedInBackward({gradient}, x.tokens * out, name + ".output_grad.cast");
      operators_.casts_inside_ = false;
    }
    const Value dx = tape_.MakeGradient(x.value);
    RunGrouped(false, ExpertProduct(name + ".dgrad", each, in, out, ProductLayout::kInputGradient),
               {gradients.rows}, {dx}, {}, parameters.all());
    if (trained) {
      Kernel product =
          ExpertProduct(name + ".wgrad", out, in, each, ProductLayout::kWeightGradient);
      if (work_.main_gradients) {
        const Bytes sums(in * out * SizeOf(*work_.main_gradients));
        product.read += sums;
        product.written = sums;
        product.adds_to_fp32 = *work_.main_gradients == DataType::kFp32;
      }
      RunGrouped(false, product, {gradients.columns, kept}, {},
                 completes ? parameters.all() : std::vector<int>(), parameters.all());
    }
    tape_.Deliver(x.value, dx);
  });
  return y;
}

// One kernel, which keeps the first product's output and the rows' weights.
Operand MixtureOperators::WeightedSwiGlu(const Operand& gate_up, const Rows& rows) {
  const std::int64_t local =
      options_.products == ExpertProducts::kLooped ? local_experts() : std::int64_t{1};
  const Operand y = operators_.Make("mlp.experts.activation output",
                                    gated() ? gate_up.width / 2 : gate_up.width, gate_up.tokens);
  const Bytes inside = operators_.Size(gate_up), outside = operators_.Size(y);
  const Bytes weights = WeightBytes(rows.count);
  const auto part = [&](std::string_view name, Bytes read, Bytes written) {
    return operators_.Memory(std::string(name), 6 * operators_.Elements(y) / local,
                             Bytes(read.count() / local), Bytes(written.count() / local));
  };
  tape_.BeginModule(Module::kExpertActivation);
  tape_.Keep(gate_up.value);
  Pieces reads{gate_up.value};
  if (rows.weights >= 0) {
    tape_.Keep(rows.weights);
    reads.emplace_back(rows.weights);
  }
  Repeat(true, local, part("mlp.experts.activation", inside + weights, outside), reads, {y.value});
  tape_.BeginModule(Module::kMixture);
  const Kernel gradient =
      part("mlp.experts.activation.dgrad", outside + inside + weights, inside + weights);
  tape_.OnBackward([=, this] {
    const Value inner = tape_.MakeGradient(gate_up.value);
    Pieces read{tape_.GradientOf(y.value), gate_up.value}, written{inner};
    if (rows.weights >= 0) {
      read.emplace_back(rows.weights);
      written.emplace_back(tape_.MakeGradient(rows.weights));
    }
    Repeat(false, local, gradient, read, written);
    tape_.Deliver(gate_up.value, inner);
    if (rows.weights >= 0) tape_.Deliver(rows.weights, written.back().value);
  });
  return y;
}

// torchtitan/models/gpt_oss/moe.py @ b5bcd76, GptOssGroupedExperts: repeat_interleave copies a bias
// for each row. Its gradient sums rows.
Operand MixtureOperators::BiasedRows(const Operand& y, const LinearModule& module) {
  const std::string name(module.name);
  const Bytes bytes = operators_.Size(y);
  const Value biases = tape_.Make(name + " bias of each row", bytes);
  const Operand sum = operators_.Make(name + ".bias output", y.width, y.tokens);
  tape_.Run(Small(name + ".bias.repeat", Bytes(), bytes), {}, {biases}, module.parameters.all());
  tape_.Run(operators_.Memory(name + ".bias", LayerOperators::Elements(y), 2 * bytes, bytes),
            {y.value, biases}, {sum.value});
  tape_.OnBackward([=, this] {
    tape_.RunBackward(
        operators_.Memory(name + ".bias.grad", LayerOperators::Elements(y), bytes, Bytes()),
        {tape_.GradientOf(sum.value)}, {});
    tape_.Pass(sum.value, y.value);
  });
  return sum;
}

// swiglu of the same file: each half is every second number, so memory is read in whole.
Operand MixtureOperators::ClampedGlu(const Operand& gate_up) {
  const Operand y =
      operators_.Make("mlp.experts.activation output", gate_up.width / 2, gate_up.tokens);
  const Bytes half = operators_.Size(y), both = operators_.Size(gate_up);
  const auto name = [](std::string_view suffix) { return Joined("mlp.experts.act_fn", suffix); };
  const auto run = [&](std::string_view suffix, Bytes read, const Pieces& reads) {
    const Value made = tape_.Make(Joined(name(suffix), " output"), half);
    tape_.Run(operators_.Memory(name(suffix), LayerOperators::Elements(y), read, half), reads,
              {made});
    return made;
  };
  const Value gate = run(".clamp_gate", both, {gate_up.value});
  const Value linear = run(".clamp_linear", both, {gate_up.value});
  const Value sigmoid = run(".sigmoid", half, {run(".scale", half, {gate})});
  const Value unit = run(".unit", 2 * half, {gate, sigmoid});
  tape_.Run(
      operators_.Memory(name(".add_product"), 2 * LayerOperators::Elements(y), 3 * half, half),
      {unit, linear}, {y.value});
  for (const Value kept : {gate_up.value, gate, linear, sigmoid, unit}) tape_.Keep(kept);
  tape_.OnBackward([=, this] {
    const auto back = [&](std::string_view suffix, Bytes read, const Pieces& reads, Bytes written) {
      const Value made = tape_.MakeScratch(written);
      tape_.RunBackward(operators_.Memory(name(suffix), LayerOperators::Elements(y), read, written),
                        reads, {made});
      return made;
    };
    const auto operation = [&](std::string_view suffix, const Pieces& reads) {
      return back(suffix, static_cast<std::int64_t>(reads.size()) * half, reads, half);
    };
    const Value dy = tape_.GradientOf(y.value);
    const Value d_linear = operation(".add_product.dgrad_linear", {dy, unit});
    const Value d_unit =
        operation(".unit.grad.add", {dy, operation(".add_product.dgrad_unit", {dy, linear})});
    const Value d_sigmoid = operation(".unit.dgrad_sigmoid", {d_unit, gate});
    const Value d_gate = operation(".unit.dgrad_gate", {d_unit, sigmoid});
    const Value d_scaled = operation(".sigmoid.dgrad", {d_sigmoid, sigmoid});
    const Value d_clamped =
        operation(".gate.grad.add", {d_gate, operation(".scale.dgrad", {d_scaled})});
    // Backward of a clamp: the mask of values within the limits, the gradient there, then zeros of
    // both halves, one of which is filled.
    const auto unclamp = [&](std::string_view suffix, Value gradient) {
      const Value within =
          back(Joined(suffix, ".within"), both, {gate_up.value}, Bytes(half.count() / 2));
      const Value chosen = operation(Joined(suffix, ".dgrad"), {gradient, within});
      const Value zeros = back(Joined(suffix, ".zeros"), Bytes(), {}, both);
      tape_.RunBackward(Small(name(Joined(suffix, ".fill")), half, both), {chosen}, {zeros});
      return zeros;
    };
    const Value of_linear = unclamp(".clamp_linear", d_linear);
    const Value of_gate = unclamp(".clamp_gate", d_clamped);
    const Value joined = tape_.MakeGradient(gate_up.value);
    tape_.RunBackward(operators_.Memory(name(".halves.grad.add"), LayerOperators::Elements(gate_up),
                                        2 * both, both),
                      {of_linear, of_gate}, {joined});
    tape_.Deliver(gate_up.value, joined);
  });
  return y;
}

// megatron/core/transformer/moe/paged_stash.py @ d98e8a6: after the experts, what their backward
// reads is copied into pages, and before their backward from the pages. The copies run on a stream
// of their own there; here they run between the other kernels, whose memory bandwidth they share.
void MixtureOperators::Stash(const Operand& output, Bytes kept) {
  tape_.Run(operators_.Memory("mlp.experts.stash", 0, kept, kept), {output.value}, {});
  tape_.OnBackward([=, this] {
    tape_.RunBackward(operators_.Memory("mlp.experts.stash.restore", 0, kept, kept), {}, {});
  });
}

Operand MixtureOperators::RunExperts(const Rows& rows) {
  const Operand x =
      Padded({.value = rows.rows, .width = width_, .tokens = rows.count}, "mlp.experts.pad");
  const std::int64_t inner = this->inner() / options_.tensor;
  const std::int64_t first_width = modules_.gate_up.out / options_.tensor;
  const LinearModule& first = modules_.gate_up;
  if (!divided() && counts_on_host_ >= 0) tape_.AwaitOnHost(counts_on_host_);
  if (experts_.bias && !options_.weighs_in_activation() && !work_.compiled) {
    const Operand both =
        BiasedRows(GroupedLinear(x, first.name, first_width, first.parameters, true), first);
    const LinearModule& last = modules_.down;
    return BiasedRows(GroupedLinear(ClampedGlu(both), last.name, width_, last.parameters, true),
                      last);
  }
  if (IsUnfused(work_.activation_function) && !options_.weighs_in_activation() && !gated()) {
    const Operand up = GroupedLinear(x, first.name, first_width, first.parameters, true);
    return GroupedLinear(operators_.SquaredRelu(up, "mlp.experts.act_fn"), modules_.down.name,
                         width_, modules_.down.parameters, true);
  }
  if (IsUnfused(work_.activation_function) && !options_.weighs_in_activation()) {
    const Operand gate = GroupedLinear(x, "mlp.experts.gate_proj", inner, first.parameters, true);
    const Operand up = GroupedLinear(x, "mlp.experts.up_proj", inner, first.parameters, false);
    const Operand product =
        operators_.Multiply(operators_.Silu(gate, "mlp.experts.act_fn"), up, "mlp.experts.product");
    return GroupedLinear(product, modules_.down.name, width_, modules_.down.parameters, true);
  }
  const Operand both = GroupedLinear(x, first.name, first_width, first.parameters, true);
  const Operand product = WeightedSwiGlu(both, rows);
  const Operand y =
      GroupedLinear(product, modules_.down.name, width_, modules_.down.parameters, true);
  if (options_.fused_rows) {
    const auto kept = [&](const Operand& input) {
      return quantizes() ? operators_.QuantizedBytes(LayerOperators::Elements(input))
                         : operators_.Size(input);
    };
    Stash(y, kept(x) + operators_.Size(both) + kept(product));
  }
  return Padded(y, "mlp.experts.unpad");
}

}  // namespace stepcast::model
