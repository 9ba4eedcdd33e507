#include "src/model/mixture_operators.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "src/model/operator_name.h"
#include "src/model/operator_sizes.h"

namespace stepcast::model {
namespace {

using Piece = LayerTape::Piece;
using Pieces = std::vector<Piece>;

// Kernels that PyTorch launches for what Transformer Engine's router does in one: scores, top-k,
// gather, normalisation, and the two tables of zeros that the chosen ones are scattered into
// (megatron/core/transformer/moe/moe_utils.py, topk_routing_with_score_function); more of them
// where experts are chosen by groups; and their gradients.
constexpr std::int64_t kRouterKernels = 10, kGroupKernels = 7, kRouterGradientKernels = 5;
// Of the permutation's map: in Transformer Engine, and as a sort of tokens by expert.
constexpr std::int64_t kMapKernels = 3, kSortKernels = 6;
// Sums of the gathered counts: rows that go to and come from each rank, and rows of each expert
// (token_dispatcher.py, MoEAlltoAllTokenDispatcher.preprocess).
constexpr std::int64_t kCountKernels = 6;
constexpr std::int64_t kCountSize = 8;  // bytes
// deepspeed/moe/ep_kernels.py, TOKEN_GROUP_ALIGN_SIZE_M.
constexpr std::int64_t kAutoEpRows = 8;

}  // namespace

MixtureOperators::MixtureOperators(LayerOperators& operators, const Experts& experts,
                                   const Modules& modules)
    : operators_(operators),
      tape_(*operators.tape_),
      work_(operators.options_),
      options_(operators.options_.experts),
      experts_(experts),
      modules_(modules) {}

parallel::AxisSet MixtureOperators::ranks_and_parts() const {
  parallel::AxisSet axes = parallel::kExpert;
  if (options_.tensor > 1) axes = axes | parallel::Axis::kExpertTensor;
  return axes;
}

Bytes MixtureOperators::RowBytes(std::int64_t rows) const {
  return operators_.BytesOfElements(rows * width_);
}

std::int64_t MixtureOperators::received_rows() const {
  return std::llround(static_cast<double>(sent_rows()) * options_.load);
}

std::int64_t MixtureOperators::exchanged_rows() const {
  const std::int64_t most = std::max(sent_rows(), received_rows());
  return (most + options_.ranks - 1) / options_.ranks * options_.ranks;
}

double MixtureOperators::share_of_model() const {
  if (options_.implementation != ExpertImplementation::kDeepSpeed) {
    return 1 / std::max(options_.load, 1.0);
  }
  return std::min(1.0, static_cast<double>(sent_rows()) / static_cast<double>(slots()));
}

Bytes MixtureOperators::WeightBytes(std::int64_t rows) const {
  return options_.weighs_in_activation() ? Bytes(rows * kFp32Size) : Bytes();
}

Kernel MixtureOperators::Small(std::string_view name, Bytes read, Bytes written) const {
  return operators_.Memory(std::string(name), 0, read, written);
}

void MixtureOperators::Repeat(bool forward, std::int64_t times, const Kernel& kernel,
                              const Pieces& reads, const Pieces& writes) {
  for (std::int64_t i = 0; i < times; ++i) operators_.RunIn(forward, kernel, reads, writes);
}

void MixtureOperators::RunBeside(const std::function<void()>& operators) {
  if (operators == nullptr) return;
  tape_.BeginLane();
  operators();
  tape_.EndLane();
}

Operand MixtureOperators::Run(const Operand& x, Beside beside) {
  beside_ = std::move(beside);
  tokens_ = x.tokens;
  width_ = x.width;
  if (options_.implementation == ExpertImplementation::kDeepSpeed) return RunSlots(x);
  Route(x);
  if (options_.implementation == ExpertImplementation::kTransformers) return RunTransformers(x);
  if (SendsTokensOnce(options_.dispatcher) && divided()) {
    const Rows rows = DispatchOnce(x);
    return CombineOnce(RunExperts(rows), x);
  }
  if (options_.dispatcher == Dispatcher::kAllGather && divided()) {
    const Rows rows = DispatchToAll(x);
    return CombineFromAll(RunExperts(rows), x);
  }
  Count();
  const Rows rows = Dispatch(Permute(x));
  return Combine(RunExperts(rows), x);
}

// The weight is the same on all ranks, and its product is in 16 bits whatever the experts' are. In
// FP32, forward multiplies 16 bits into FP32, and backward casts both operands
// (moe_utils.py, RouterGatingLinearFunction); DeepSpeed's gate casts both first and keeps the
// copies (sharded_moe.py, TopKGate).
LayerTape::Value MixtureOperators::Logits(const Operand& x) {
  const std::int64_t count = experts_.count;
  const DataType type = options_.router_type;
  const bool wide = type == DataType::kFp32;
  const ModulePositions positions = modules_.router.parameters;
  const Bytes logits_bytes = BytesOf(tokens_ * count, type);
  const Value logits = tape_.Make(Joined(modules_.router.name, " logits"), logits_bytes);
  const auto product = [&, this](std::string_view suffix, std::int64_t m, std::int64_t n,
                                 std::int64_t k, ProductLayout layout, DataType operands) {
    Kernel kernel = operators_.Gemm(Joined(modules_.router.name, suffix), m, n, k, layout);
    kernel.data_type = operands;
    kernel.read = BytesOf(m * k + k * n, operands);
    return kernel;
  };
  const DataType narrow = operators_.element_;
  const DataType operands = wide ? DataType::kFp32 : narrow;
  const bool copies = wide && options_.implementation == ExpertImplementation::kDeepSpeed;
  const Bytes cast(tokens_ * width_ * kFp32Size);
  Value input = x.value;
  Pieces operands_kept{input};
  if (copies) {
    const std::string name(modules_.router.name);
    input = tape_.Make(name + " input in FP32", cast);
    tape_.Run(Small(name + ".input.cast", RowBytes(tokens_), cast), {x.value}, {input});
    const std::int64_t elements = width_ * count;
    const Value weight = tape_.Make(name + " weight in FP32", Bytes(elements * kFp32Size));
    tape_.Keep(weight);
    tape_.Run(Small(name + ".weight.cast", BytesOf(elements, narrow), Bytes(elements * kFp32Size)),
              {}, {weight}, positions.all());
    operands_kept = {input, weight};
  }
  Kernel forward =
      product("", tokens_, count, width_, ProductLayout::kForward, copies ? operands : narrow);
  forward.written = logits_bytes;
  tape_.Keep(input);
  tape_.Run(forward, operands_kept, {logits}, positions.all());
  const Kernel input_gradient =
      product(".dgrad", tokens_, width_, count, ProductLayout::kInputGradient, operands);
  const Kernel weight_gradient =
      product(".wgrad", count, width_, tokens_, ProductLayout::kWeightGradient, operands);
  tape_.OnBackward([=, this, name = std::string(modules_.router.name)] {
    const Value gradient = tape_.GradientOf(logits);
    Value operand = input;
    if (wide && !copies) {
      operand = tape_.MakeScratch(cast);
      tape_.RunBackward(Small(name + ".input.cast", RowBytes(tokens_), cast), {x.value}, {operand});
    }
    const Value dx = tape_.MakeGradient(x.value);
    Pieces reads{gradient};
    reads.insert(reads.end(), operands_kept.begin() + 1, operands_kept.end());
    tape_.RunBackward(input_gradient, reads, {dx}, {}, positions.all());
    if (positions.weight >= 0) {
      operators_.RunPartGradients(weight_gradient, {gradient, operand}, {positions.weight},
                                  positions);
    }
    if (positions.bias >= 0) {
      operators_.RunPartGradients(
          Small(name + ".bias.grad", logits_bytes, BytesOf(experts_.count, type)), {gradient},
          {positions.bias}, positions);
    }
    tape_.Deliver(x.value, dx);
  });
  return logits;
}

void MixtureOperators::Route(const Operand& x) {
  const Value logits = Logits(x);
  const std::int64_t scores = tokens_ * experts_.count;
  const Bytes dense(scores * kFp32Size), logit_bytes = BytesOf(scores, options_.router_type);
  const std::string name(modules_.router.name);
  probabilities_ = tape_.Make(name + " probabilities", dense);
  map_ = tape_.Make(name + " map of chosen experts", Bytes(scores * kMaskSize));
  tape_.Keep(probabilities_);
  tape_.Keep(map_);
  std::int64_t launches = 1, gradient_launches = 1;
  if (!options_.fused_router) {
    launches = kRouterKernels + (experts_.groups > 0 ? kGroupKernels : 0);
    gradient_launches = kRouterGradientKernels;
    // The indices of the chosen ones, which gather's gradient takes.
    const Value indices = tape_.Make(name + " indices of chosen experts",
                                     Bytes(tokens_ * experts_.per_token * kIndexSize));
    tape_.Keep(indices);
    tape_.Run(Small(name + ".top_k", logit_bytes, Bytes(tokens_ * experts_.per_token * kIndexSize)),
              {logits}, {indices});
    --launches;
  }
  Repeat(true, launches, Small(name + ".choose", logit_bytes, dense + Bytes(scores * kMaskSize)),
         {logits}, {probabilities_, map_});
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.MakeGradient(logits);
    Repeat(false, gradient_launches, Small(name + ".choose.dgrad", dense + dense, logit_bytes),
           {tape_.GradientOf(probabilities_), probabilities_, map_}, {gradient});
    tape_.Deliver(logits, gradient);
  });
}

void MixtureOperators::Count() {
  if (options_.fixed_rows) return;
  const bool host_needs_counts = divided() || options_.products != ExpertProducts::kGrouped;
  const Bytes own(experts_.count * kCountSize);
  const Value counts = tape_.Make("rows of each expert", own);
  tape_.Run(Small("mlp.dispatch.counts", Bytes(tokens_ * experts_.count * kMaskSize), own), {map_},
            {counts});
  Value all = counts;
  Bytes bytes = own;
  if (divided()) {
    bytes = options_.ranks * options_.tensor * own;
    all = tape_.Make("rows of each expert, of all ranks", bytes);
    tape_.Communicate({CollectiveKind::kAllGather, ranks_and_parts(), DataType::kFp32}, counts,
                      all);
  }
  const Value sums = tape_.Make("rows of each rank", own);
  Repeat(true, kCountKernels, Small("mlp.dispatch.sums", bytes, own), {all}, {sums});
  if (!host_needs_counts) return;
  counts_on_host_ = tape_.Make("counts on the host", Bytes());
  tape_.Run(Small("mlp.dispatch.counts_to_host", own, own), {sums}, {counts_on_host_});
}

MixtureOperators::Rows MixtureOperators::Permute(const Operand& x) {
  const std::int64_t scores = tokens_ * experts_.count;
  Rows permuted{.count = sent_rows()};
  const Bytes rows = RowBytes(permuted.count), weights = WeightBytes(permuted.count);
  const Bytes row_map(options_.fused_permutation ? tokens_ * (2 * experts_.count + 1) * kFp32Size
                                                 : permuted.count * kIndexSize);
  row_map_ = tape_.Make("map of permuted rows", row_map);
  tape_.Keep(row_map_);
  if (options_.fused_permutation) {
    Repeat(true, kMapKernels, Small("mlp.permute.map", Bytes(scores * kMaskSize), row_map), {map_},
           {row_map_});
  } else {
    const Bytes keys(scores * kIndexSize);
    Repeat(true, kSortKernels, Small("mlp.permute.sort", keys, keys), {map_}, {row_map_});
  }
  const std::int64_t room = exchanged_rows();
  permuted.rows = tape_.Make("permuted rows", RowBytes(room));
  Pieces written{permuted.rows};
  if (options_.weighs_in_activation()) {
    permuted.weights = tape_.Make("weights of permuted rows", WeightBytes(room));
    written.emplace_back(permuted.weights);
  }
  tape_.Run(Small("mlp.permute", operators_.Size(x) + weights, rows + weights),
            {x.value, probabilities_, row_map_}, written);
  tape_.OnBackward([=, this] {
    const Value dx = tape_.MakeGradient(x.value);
    Pieces reads{tape_.GradientOf(permuted.rows), row_map_}, writes{dx};
    Value dp = -1;
    if (options_.weighs_in_activation()) {
      dp = tape_.MakeGradient(probabilities_);
      reads.emplace_back(tape_.GradientOf(permuted.weights));
      writes.emplace_back(dp);
    }
    tape_.RunBackward(
        operators_.Memory("mlp.permute.dgrad", permuted.count * width_, rows + weights,
                          operators_.Size(x) + (dp < 0 ? Bytes() : Bytes(scores * kFp32Size))),
        reads, writes);
    tape_.Deliver(x.value, dx);
    if (dp >= 0) tape_.Deliver(probabilities_, dp);
  });
  return permuted;
}

Pieces MixtureOperators::Exchange(bool forward, std::string_view name, Value from, Bytes bytes) {
  return Exchange(forward, name, from, bytes, {.axes = parallel::kExpert, .ranks = options_.ranks});
}

Pieces MixtureOperators::Exchange(bool forward, std::string_view name, Value from, Bytes bytes,
                                  const Reach& reach) {
  const auto ranks = static_cast<int>(reach.ranks);
  const Value others = operators_.MakeIn(forward, Joined(name, ", from other ranks"),
                                         Bytes(bytes.count() / ranks * (ranks - 1)));
  operators_.CommunicateIn(forward,
                           {.kind = CollectiveKind::kAllToAll,
                            .axes = reach.axes,
                            .type = reach.type.value_or(operators_.element_),
                            .multiprocessors = reach.multiprocessors},
                           LayerTape::Piece(from), others);
  return {Piece(from, PieceRange{.piece = ranks - 1, .pieces = ranks}), others};
}

LayerTape::Value MixtureOperators::GatherParts(bool forward, std::string_view name, Value part,
                                               Bytes whole, DataType type) {
  const Value all = operators_.MakeIn(forward, std::string(name), whole);
  operators_.CommunicateIn(
      forward, {CollectiveKind::kAllGather, parallel::Axis::kExpertTensor, type}, part, all);
  return all;
}

LayerTape::Value MixtureOperators::ScatterParts(bool forward, std::string_view name, Value whole,
                                                Bytes part, DataType type) {
  const Value own = operators_.MakeIn(forward, std::string(name), part);
  operators_.CommunicateIn(
      forward, {CollectiveKind::kReduceScatter, parallel::Axis::kExpertTensor, type}, whole, own);
  return own;
}

LayerTape::Value MixtureOperators::SortMap(std::string_view name, std::int64_t rows) {
  const Bytes bytes(rows * kFp32Size);
  const Value map = tape_.Make(Joined(name, " output"), bytes);
  tape_.Keep(map);
  tape_.Run(Small(name, Bytes(), bytes), {}, {map});
  return map;
}

// What the ranks send one another, and, where ranks have parts of the experts, what these gather of
// it. With several experts, a copy brings the rows of each together; with one, the rank's own rows
// are copied to the others.
MixtureOperators::Rows MixtureOperators::Dispatch(const Rows& permuted) {
  if (!divided()) return permuted;
  const std::int64_t received = exchanged_rows();
  Rows rows{.count = received_rows() * options_.tensor};
  rows.rows = tape_.Make("rows of experts", RowBytes(rows.count));
  if (options_.weighs_in_activation()) {
    rows.weights = tape_.Make("weights of experts' rows", WeightBytes(rows.count));
  }
  const bool several = local_experts() > 1;
  const Value map = several ? SortMap("mlp.dispatch.sort_map", rows.count) : -1;
  const Kernel sort = several || options_.tensor > 1
                          ? Small("mlp.dispatch.sort", RowBytes(rows.count), RowBytes(rows.count))
                          : Small("mlp.dispatch.own_rows", RowBytes(received / options_.ranks),
                                  RowBytes(received / options_.ranks));
  const auto bring = [this](bool forward, std::string_view name, Value from, Bytes one_part) {
    Pieces arrived{from};
    if (options_.ranks > 1) arrived = Exchange(forward, name, from, one_part);
    return arrived;
  };
  struct Carried {
    Value from, to;
    Bytes sent, whole;
    std::string name;
  };
  std::vector<Carried> carried{
      {permuted.rows, rows.rows, RowBytes(received), RowBytes(received * options_.tensor), "rows"}};
  if (options_.weighs_in_activation()) {
    carried.push_back({permuted.weights, rows.weights, WeightBytes(received),
                       WeightBytes(received * options_.tensor), "weights of rows"});
  }
  if (counts_on_host_ >= 0) tape_.AwaitOnHost(counts_on_host_);
  // All exchanges are sent off before the first copy.
  std::vector<Pieces> arrived;
  for (const Carried& each : carried) {
    arrived.push_back(bring(true, each.name, each.from, each.sent));
  }
  RunBeside(beside_.dispatch);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const Carried& each = carried[i];
    Kernel copy = sort;
    if (i > 0) copy.read = copy.written = each.whole;
    Pieces reads = arrived[i];
    if (options_.tensor > 1) {
      const Value together = operators_.MakeIn(true, each.name + ", received", each.sent);
      operators_.RunIn(true, Small("mlp.dispatch.own_rows", each.sent, each.sent), reads,
                       {together});
      reads = {GatherParts(true, each.name + " of all parts", together, each.whole,
                           operators_.element_)};
    }
    if (map >= 0) reads.emplace_back(map);
    tape_.Run(copy, reads, {each.to});
  }
  tape_.OnBackward([=, this] {
    const auto send = [&](std::size_t i) -> Pieces {
      const Carried& each = carried[i];
      Kernel copy = sort;
      copy.name += ".dgrad";
      if (i > 0) copy.read = copy.written = each.whole;
      Value ordered = tape_.MakeScratch(each.whole);
      Pieces reads{tape_.GradientOf(each.to)};
      if (map >= 0) reads.emplace_back(map);
      tape_.RunBackward(copy, reads, {ordered});
      if (options_.tensor > 1) {
        const Value sums = ScatterParts(false, each.name, ordered, each.sent, operators_.element_);
        ordered = tape_.MakeScratch(each.sent);
        tape_.RunBackward(Small("mlp.dispatch.sums.dgrad", each.sent, each.sent), {sums},
                          {ordered});
      }
      return {ordered};
    };
    const auto exchange = [&](std::size_t i, const Pieces& ordered) {
      const Carried& each = carried[i];
      return options_.ranks > 1 ? Exchange(false, each.name, ordered.front().value, each.sent)
                                : ordered;
    };
    // The rank's own rows are copied to those that have come.
    const auto arrive = [&](std::size_t i, const Pieces& back) {
      const Carried& each = carried[i];
      const Value gradient = tape_.MakeGradient(each.from);
      const Bytes own(each.sent.count() / options_.ranks);
      tape_.RunBackward(Small("mlp.dispatch.own_rows.dgrad", own, own), back, {gradient});
      tape_.Deliver(each.from, gradient);
    };
    // Weights first, then rows.
    if (!options_.overlaps_passes) {
      for (std::size_t i = carried.size(); i-- > 0;) arrive(i, exchange(i, send(i)));
      return;
    }
    std::vector<Pieces> pieces(carried.size());
    for (std::size_t i = carried.size(); i-- > 0;) pieces[i] = send(i);
    for (std::size_t i = carried.size(); i-- > 0;) pieces[i] = exchange(i, pieces[i]);
    for (std::size_t i = carried.size(); i-- > 0;) arrive(i, pieces[i]);
  });
  return rows;
}

void MixtureOperators::RunGrouped(bool forward, const Kernel& one, const Pieces& reads,
                                  const Pieces& writes, std::vector<int> gradients,
                                  const std::vector<int>& parameters) {
  const std::int64_t local = local_experts();
  Kernel kernel = one;
  std::int64_t launches = local;
  if (options_.products == ExpertProducts::kGrouped) {
    kernel.batch = local;
    kernel.flops *= local;
    kernel.model_flops *= local;
    kernel.read = local * kernel.read;
    kernel.written = local * kernel.written;
    launches = 1;
  } else if (options_.products == ExpertProducts::kStreams) {
    kernel.together = std::min<std::int64_t>(local, kStreamsOfExperts);
  }
  for (std::int64_t i = 0; i < launches; ++i) {
    if (i > 0 && options_.products == ExpertProducts::kStreams) {
      kernel.issuer = Issuer::kSameCall;
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

// megatron/core/fp8_utils.py, get_fp8_align_size: 16 rows, with block scales of MXFP8 and NVFP4 32.
// AutoEP's permutation fills up to 8 in 16 bits, too.
std::int64_t MixtureOperators::RowsOfExpert(std::int64_t rows) const {
  const std::int64_t each = (rows + local_experts() - 1) / local_experts();
  if (!quantizes() && options_.implementation != ExpertImplementation::kAutoEp) return each;
  const std::int64_t multiple = !quantizes()                      ? kAutoEpRows
                                : work_.compute == DataType::kFp8 ? 16
                                                                  : 32;
  return (each + multiple - 1) / multiple * multiple;
}

Operand MixtureOperators::Padded(const Operand& x, std::string_view name) {
  return quantizes() ? operators_.Copies(x, name, 1) : x;
}

// Of each expert as many rows as of the others. `completes`: backward of it completes the gradient
// of the parameters.
Operand MixtureOperators::GroupedLinear(const Operand& x, std::string_view name, std::int64_t out,
                                        const ModulePositions& parameters, bool completes) {
  const std::int64_t each = RowsOfExpert(x.tokens);
  const std::int64_t in = x.width;
  const Operand y = operators_.Make(Joined(name, " output"), out, x.tokens);
  const bool trained = parameters.weight >= 0;
  std::optional<QuantizedCopies> low;
  if (quantizes()) low = operators_.Quantized(x, name, !trained);
  const Value kept = low ? low->columns : x.value;
  if (trained) tape_.Keep(kept);
  RunGrouped(true, ExpertProduct(std::string(name), each, out, in, ProductLayout::kForward),
             {low ? low->rows : x.value}, {y.value}, {}, parameters.all());
  tape_.OnBackward([=, this, name = std::string(name)] {
    const Value gradient = tape_.GradientOf(y.value);
    QuantizedCopies gradients{.rows = gradient, .columns = gradient};
    if (low) {
      gradients =
          operators_.QuantizedInBackward({gradient}, x.tokens * out, name + ".output_grad.cast");
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

// One kernel, which keeps what the first product makes, and the rows' weights.
Operand MixtureOperators::WeightedSwiGlu(const Operand& gate_up, const Rows& rows) {
  const std::int64_t local =
      options_.products == ExpertProducts::kLooped ? local_experts() : std::int64_t{1};
  const Operand y =
      operators_.Make("mlp.experts.activation output", gate_up.width / 2, gate_up.tokens);
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

Operand MixtureOperators::RunExperts(const Rows& rows) {
  const Operand x =
      Padded({.value = rows.rows, .width = width_, .tokens = rows.count}, "mlp.experts.pad");
  const std::int64_t inner = modules_.gate_up.out / 2 / options_.tensor;
  const LinearModule& first = modules_.gate_up;
  if (!divided() && counts_on_host_ >= 0) tape_.AwaitOnHost(counts_on_host_);
  if (IsUnfused(work_.activation_function) && !options_.weighs_in_activation()) {
    const Operand gate = GroupedLinear(x, "mlp.experts.gate_proj", inner, first.parameters, true);
    const Operand up = GroupedLinear(x, "mlp.experts.up_proj", inner, first.parameters, false);
    const Operand product =
        operators_.Multiply(operators_.Silu(gate, "mlp.experts.act_fn"), up, "mlp.experts.product");
    return GroupedLinear(product, modules_.down.name, width_, modules_.down.parameters, true);
  }
  const Operand both = GroupedLinear(x, first.name, 2 * inner, first.parameters, true);
  const Operand y = GroupedLinear(WeightedSwiGlu(both, rows), modules_.down.name, width_,
                                  modules_.down.parameters, true);
  return Padded(y, "mlp.experts.unpad");
}

// Rows in the order in which the ranks' parts were received, back to their ranks.
Operand MixtureOperators::Combine(const Operand& made, const Operand& x) {
  if (!divided()) return AddUpRows({made.value}, made.value, x);
  const std::int64_t received = exchanged_rows();
  const Bytes whole = RowBytes(received * options_.tensor), part = RowBytes(received);
  const Value ordered = tape_.Make("rows for other ranks", part);
  const bool sorts = local_experts() > 1 || options_.tensor > 1;
  const Bytes own(part.count() / options_.ranks);
  Pieces sorted_reads{made.value};
  if (local_experts() > 1) sorted_reads.emplace_back(SortMap("mlp.combine.sort_map", made.tokens));
  const Kernel sort =
      sorts ? Small("mlp.combine.sort", whole, whole) : Small("mlp.combine.own_rows", own, own);
  // Parts are added up in the type of the weights.
  const DataType sum_type = options_.router_type;
  if (options_.tensor > 1) {
    const Value sorted =
        tape_.Make("rows of all parts", BytesOf(received * options_.tensor * width_, sum_type));
    tape_.Run(sort, sorted_reads, {sorted});
    const Value sums =
        ScatterParts(true, "rows added up", sorted, BytesOf(received * width_, sum_type), sum_type);
    tape_.Run(Small("mlp.combine.cast", BytesOf(received * width_, sum_type), part), {sums},
              {ordered});
  } else {
    tape_.Run(sort, sorted_reads, {ordered});
  }
  tape_.OnBackward([=, this] {
    Value gradient = tape_.GradientOf(ordered);
    if (options_.tensor > 1) {
      gradient = GatherParts(false, "gradients of rows", gradient, whole, operators_.element_);
    }
    const Value back = tape_.MakeGradient(made.value);
    Kernel copy = sort;
    copy.name += ".dgrad";
    Pieces reads{gradient};
    reads.insert(reads.end(), sorted_reads.begin() + 1, sorted_reads.end());
    tape_.RunBackward(copy, reads, {back});
    tape_.Deliver(made.value, back);
  });
  if (options_.ranks == 1) return AddUpRows({ordered}, ordered, x);
  const Pieces returned = Exchange(true, "rows back", ordered, part);
  RunBeside(beside_.combine);
  return AddUpRows(returned, ordered, x);
}

// The rows of each token, added up. Its backward puts each row's gradient where the row came from,
// and sends it there.
Operand MixtureOperators::AddUpRows(const Pieces& returned, Value gradients_of, const Operand& x) {
  const std::int64_t count = sent_rows();
  const Bytes rows = RowBytes(count), out = operators_.Size(x), sent = RowBytes(exchanged_rows());
  const Operand y = operators_.Make("mlp.experts output", width_, tokens_);
  Value weighed = -1;
  if (options_.weighs_in_activation()) {
    Pieces reads = returned;
    reads.emplace_back(row_map_);
    tape_.Run(operators_.Memory("mlp.unpermute", count * width_, rows, out), reads, {y.value});
  } else {
    // In FP32, from a copy that is kept for the weights' gradients; then zeros, to which rows are
    // added.
    const Bytes wide(count * width_ * kFp32Size);
    weighed = tape_.Make("returned rows in FP32", wide);
    tape_.Keep(weighed);
    const Value scaled = tape_.Make("weighted rows", rows);
    tape_.Run(Small("mlp.combine.to_fp32", rows, wide), returned, {weighed});
    tape_.Run(Small("mlp.combine.weigh", wide, wide), {weighed, probabilities_}, {scaled});
    tape_.Run(Small("mlp.combine.cast", wide, rows), {scaled}, {scaled});
    tape_.Run(Small("mlp.combine.zeros", Bytes(), out), {}, {y.value});
    tape_.Run(operators_.Memory("mlp.combine.scatter_add", count * width_, rows + out, out),
              {scaled, row_map_}, {y.value});
  }
  tape_.OnBackward([=, this] {
    const Value spread = tape_.MakeScratch(options_.ranks == 1 ? rows : sent);
    tape_.RunBackward(Small("mlp.unpermute.dgrad", out, rows),
                      {tape_.GradientOf(y.value), row_map_}, {spread});
    if (weighed >= 0) {
      const Bytes wide(count * width_ * kFp32Size);
      const Value dp = tape_.MakeGradient(probabilities_);
      tape_.RunBackward(Small("mlp.combine.weigh.dgrad", wide, rows), {spread, probabilities_},
                        {spread});
      tape_.RunBackward(operators_.Memory("mlp.combine.weights.grad", count * width_, 2 * wide,
                                          Bytes(tokens_ * experts_.count * kFp32Size)),
                        {spread, weighed}, {dp});
      tape_.Deliver(probabilities_, dp);
    }
    if (options_.ranks == 1) {
      tape_.Deliver(gradients_of, spread);
      return;
    }
    const Pieces back = Exchange(false, "gradients of rows", spread, sent);
    const Value gradient = tape_.MakeGradient(gradients_of);
    const Bytes own(sent.count() / options_.ranks);
    tape_.RunBackward(Small("mlp.combine.own_rows.dgrad", own, own), back, {gradient});
    tape_.Deliver(gradients_of, gradient);
  });
  return y;
}

// Every rank gets the tokens of all, with the probabilities and the map of chosen experts, and
// takes the rows of its own experts.
MixtureOperators::Rows MixtureOperators::DispatchToAll(const Operand& x) {
  const std::int64_t ranks = options_.ranks * options_.tensor;
  const std::int64_t all = tokens_ * ranks;
  const Bytes dense(all * experts_.count * kFp32Size), mask(all * experts_.count * kMaskSize);
  const LayerTape::Collective gather{CollectiveKind::kAllGather, ranks_and_parts(),
                                     operators_.element_};
  const LayerTape::Collective add_up{CollectiveKind::kReduceScatter, ranks_and_parts(),
                                     operators_.element_};
  const Value map = tape_.Make("map of chosen experts, of all ranks", mask);
  const Value probabilities = tape_.Make("probabilities of all ranks", dense);
  const Value tokens = tape_.Make("tokens of all ranks", RowBytes(all));
  tape_.Communicate(gather, map_, map);
  tape_.Communicate(gather, probabilities_, probabilities);
  tape_.Communicate(gather, x.value, tokens);
  Rows rows{.count = received_rows() * options_.tensor};
  const Bytes own_rows = RowBytes(rows.count), weights = WeightBytes(rows.count);
  counts_on_host_ = tape_.Make("counts on the host", Bytes());
  tape_.Run(Small("mlp.dispatch.counts", mask, Bytes(local_experts() * kCountSize)), {map},
            {counts_on_host_});
  const Bytes row_map(options_.fused_permutation ? all * (2 * local_experts() + 1) * kFp32Size
                                                 : rows.count * kIndexSize);
  row_map_ = tape_.Make("map of permuted rows", row_map);
  tape_.Keep(row_map_);
  tape_.AwaitOnHost(counts_on_host_);
  Repeat(true, options_.fused_permutation ? kMapKernels : kSortKernels,
         Small("mlp.permute.map", mask, row_map), {map}, {row_map_});
  rows.rows = tape_.Make("rows of experts", own_rows);
  Pieces written{rows.rows};
  if (options_.weighs_in_activation()) {
    rows.weights = tape_.Make("weights of experts' rows", weights);
    written.emplace_back(rows.weights);
  }
  tape_.Run(Small("mlp.permute", own_rows + weights, own_rows + weights),
            {tokens, probabilities, row_map_}, written);
  tape_.OnBackward([=, this] {
    const Value spread = tape_.MakeScratch(RowBytes(all));
    const Value dp = tape_.MakeScratch(dense);
    Pieces reads{tape_.GradientOf(rows.rows), row_map_};
    if (rows.weights >= 0) reads.emplace_back(tape_.GradientOf(rows.weights));
    tape_.RunBackward(operators_.Memory("mlp.permute.dgrad", rows.count * width_, own_rows,
                                        RowBytes(all) + dense),
                      reads, {spread, dp});
    const Value own_probabilities = tape_.MakeGradient(probabilities_);
    tape_.CommunicateBackward(add_up, dp, own_probabilities);
    tape_.Deliver(probabilities_, own_probabilities);
    const Value dx = tape_.MakeGradient(x.value);
    tape_.CommunicateBackward(add_up, spread, dx);
    tape_.Deliver(x.value, dx);
  });
  return rows;
}

// Rows are added up at their tokens' places, in the type of the probabilities, and the ranks' sums
// are scattered.
Operand MixtureOperators::CombineFromAll(const Operand& made, const Operand& x) {
  const std::int64_t all = tokens_ * options_.ranks * options_.tensor;
  const DataType type = options_.router_type;
  const Value spread = tape_.Make("tokens of all ranks, from experts", BytesOf(all * width_, type));
  tape_.Run(operators_.Memory("mlp.unpermute", made.tokens * width_, operators_.Size(made),
                              BytesOf(all * width_, type)),
            {made.value, row_map_}, {spread});
  const Value sums = tape_.Make("tokens added up", BytesOf(tokens_ * width_, type));
  tape_.Communicate({CollectiveKind::kReduceScatter, ranks_and_parts(), type}, spread, sums);
  const Operand y = operators_.Make("mlp.experts output", width_, tokens_);
  tape_.Run(Small("mlp.combine.cast", BytesOf(tokens_ * width_, type), operators_.Size(x)), {sums},
            {y.value});
  tape_.OnBackward([=, this] {
    const Value whole = tape_.MakeScratch(RowBytes(all));
    tape_.CommunicateBackward({CollectiveKind::kAllGather, ranks_and_parts(), operators_.element_},
                              tape_.GradientOf(y.value), whole);
    const Value gradient = tape_.MakeGradient(made.value);
    tape_.RunBackward(Small("mlp.unpermute.dgrad", operators_.Size(made), operators_.Size(made)),
                      {whole, row_map_}, {gradient});
    tape_.Deliver(made.value, gradient);
  });
  return y;
}

std::int64_t MixtureOperators::tokens_to_nodes() const {
  const std::int64_t count = options_.ranks / options_.near;
  const double each = GroupsOfToken(experts_.count, count, experts_.per_token, options_.node_limit);
  const double sent = static_cast<double>(tokens_) * each * std::max(options_.load, 1.0);
  return (std::llround(sent) + count - 1) / count * count;
}

std::int64_t MixtureOperators::tokens_to_ranks() const {
  // Of the groups that are chosen first, nodes, the ranks have so many experts each.
  const std::int64_t count = options_.ranks / options_.near;
  const std::int64_t open = options_.node_limit > 0 ? std::min(options_.node_limit, count) : count;
  const double each =
      GroupsOfToken(experts_.count, options_.ranks, experts_.per_token, open * options_.near);
  const double sent = static_cast<double>(tokens_) * each * std::max(options_.load, 1.0);
  return (std::llround(sent) + options_.near - 1) / options_.near * options_.near;
}

std::optional<int> MixtureOperators::dispatch_multiprocessors() const {
  return options_.dispatcher == Dispatcher::kDeepEp ? kDeepEpMultiprocessors
                                                    : kHybridEpMultiprocessors;
}

MixtureOperators::Reach MixtureOperators::nodes() const {
  return {.axes = parallel::Axis::kExpertOuter,
          .ranks = options_.ranks / options_.near,
          .multiprocessors = dispatch_multiprocessors()};
}

MixtureOperators::Reach MixtureOperators::neighbours() const {
  return {.axes = parallel::Axis::kExpertInner,
          .ranks = options_.near,
          .multiprocessors = dispatch_multiprocessors()};
}

// Values in 8 bits, each 128 of them with an FP32 scale (deepep csrc/kernels/internode.cu).
Bytes MixtureOperators::DispatchedBytes(std::int64_t tokens) const {
  constexpr std::int64_t kScaled = 128;
  if (!options_.dispatches_fp8) return RowBytes(tokens);
  return Bytes(tokens * (width_ + (width_ + kScaled - 1) / kScaled * kFp32Size));
}

LayerTape::Value MixtureOperators::CastForDispatch(bool forward, Value rows) {
  if (!options_.dispatches_fp8) return rows;
  const Bytes bytes = DispatchedBytes(tokens_);
  const Value cast = operators_.MakeIn(forward, "tokens in 8 bits", bytes);
  operators_.RunIn(forward, Small("mlp.dispatch.cast", RowBytes(tokens_), bytes), {rows}, {cast});
  return cast;
}

Pieces MixtureOperators::ExchangeOnce(bool forward, std::string_view name, const Kernel& lay_out,
                                      const Pieces& reads, bool dispatches) {
  struct Way {
    Reach reach;
    Bytes bytes;
    std::string_view what;
  };
  const auto bytes = [&](std::int64_t tokens) {
    return dispatches ? DispatchedBytes(tokens) : RowBytes(tokens);
  };
  Way ways[] = {{nodes(), bytes(tokens_to_nodes()), " to nodes"},
                {neighbours(), bytes(tokens_to_ranks()), " to ranks of the node"}};
  for (Way& way : ways) {
    if (dispatches && options_.dispatches_fp8) way.reach.type = DataType::kFp8;
  }
  Pieces sources;
  for (const Way& way : ways) {
    if (way.reach.ranks == 1) continue;
    sources.emplace_back(operators_.MakeIn(forward, Joined(name, way.what), way.bytes));
  }
  operators_.RunIn(forward, lay_out, reads, sources);
  Pieces arrived;
  std::size_t source = 0;
  for (const Way& way : ways) {
    if (way.reach.ranks == 1) continue;
    for (const Piece& piece :
         Exchange(forward, Joined(name, way.what), sources[source++].value, way.bytes, way.reach)) {
      arrived.push_back(piece);
    }
  }
  return arrived;
}

// megatron/core/transformer/moe/fused_a2a.py and token_dispatcher.py, _DeepepManager: the indices
// of the chosen experts, the layout, and dispatch, which the host follows until the counts are
// there; a map of several kernels, and the rows, a token once for each of the rank's experts.
// HybridEP's kernels lay the rows out as they come. Backward of dispatch is a combination, with the
// layout that is known: no host waits.
MixtureOperators::Rows MixtureOperators::DispatchOnce(const Operand& x) {
  const bool deepep = options_.dispatcher == Dispatcher::kDeepEp;
  const Bytes scores(tokens_ * experts_.count * kFp32Size);
  const Bytes indices(tokens_ * experts_.per_token * kIndexSize);
  const Value layout = tape_.Make("layout of the dispatch", indices);
  if (deepep) {
    tape_.Run(Small("mlp.dispatch.indices", scores, indices), {probabilities_}, {layout});
  }
  tape_.Run(Small("mlp.dispatch.layout", indices, indices), {map_}, {layout});
  if (!options_.fixed_rows) {
    counts_on_host_ = tape_.Make("counts on the host", Bytes());
    tape_.Run(Small("mlp.dispatch.notify", indices, Bytes(local_experts() * kCountSize)), {layout},
              {counts_on_host_});
  }
  Rows rows{.count = received_rows() * options_.tensor};
  const Bytes own = RowBytes(rows.count), weights = WeightBytes(rows.count);
  const Bytes received = RowBytes(tokens_to_ranks());
  const Bytes dispatched = DispatchedBytes(tokens_to_ranks());
  // Sends read the tokens where they lie.
  const Pieces arrived = ExchangeOnce(true, "tokens", Small("mlp.dispatch.send", Bytes(), Bytes()),
                                      {CastForDispatch(true, x.value), layout}, true);
  if (counts_on_host_ >= 0) tape_.AwaitOnHost(counts_on_host_);
  const Bytes row_map(rows.count * (2 * local_experts() + 1) * kFp32Size);
  row_map_ = tape_.Make("map of permuted rows", row_map);
  tape_.Keep(row_map_);
  Repeat(true, deepep ? kMapKernels : 1, Small("mlp.permute.map", indices, row_map), {layout},
         {row_map_});
  rows.rows = tape_.Make("rows of experts", own);
  rows.weights = tape_.Make("weights of experts' rows", weights);
  Pieces reads = arrived;
  reads.emplace_back(row_map_);
  tape_.Run(Small("mlp.permute", dispatched + weights, own + weights), reads,
            {rows.rows, rows.weights});
  tape_.OnBackward([=, this] {
    const Pieces gradients{tape_.GradientOf(rows.rows), tape_.GradientOf(rows.weights), row_map_};
    const Pieces back = ExchangeOnce(
        false, "gradients of tokens",
        operators_.Memory("mlp.permute.dgrad", rows.count * width_, own + weights, received),
        gradients);
    const Value dx = tape_.MakeGradient(x.value), dp = tape_.MakeGradient(probabilities_);
    tape_.RunBackward(operators_.Memory("mlp.dispatch.dgrad", tokens_ * width_, received,
                                        operators_.Size(x) + scores),
                      back, {dx, dp});
    tape_.Deliver(x.value, dx);
    tape_.Deliver(probabilities_, dp);
  });
  return rows;
}

Operand MixtureOperators::CombineOnce(const Operand& made, const Operand& x) {
  const Bytes own = operators_.Size(made), received = RowBytes(tokens_to_ranks());
  const Pieces arrived =
      ExchangeOnce(true, "sums of tokens",
                   operators_.Memory("mlp.unpermute", made.tokens * width_, own, received),
                   {made.value, row_map_});
  const Operand y = operators_.Make("mlp.experts output", width_, tokens_);
  tape_.Run(operators_.Memory("mlp.combine.sum", tokens_ * width_, received, operators_.Size(x)),
            arrived, {y.value});
  tape_.OnBackward([=, this] {
    const Pieces back =
        ExchangeOnce(false, "gradients of sums", Small("mlp.combine.send", Bytes(), Bytes()),
                     {CastForDispatch(false, tape_.GradientOf(y.value))}, true);
    const Value gradient = tape_.MakeGradient(made.value);
    Pieces reads = back;
    reads.emplace_back(row_map_);
    tape_.RunBackward(Small("mlp.unpermute.dgrad", DispatchedBytes(tokens_to_ranks()), own), reads,
                      {gradient});
    tape_.Deliver(made.value, gradient);
  });
  return y;
}

}  // namespace stepcast::model
