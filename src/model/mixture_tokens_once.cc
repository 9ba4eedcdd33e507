// Dispatch and combine if each token is sent once to each node and rank (SendsTokensOnce).
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "src/model/mixture_operators.h"
#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

using Piece = LayerTape::Piece;
using Pieces = std::vector<Piece>;

}  // namespace

double MixtureOperators::GroupsReached(std::int64_t groups, std::int64_t limit) const {
  // Each choice is kept with the same probability, so the binomial distribution gives the number
  // kept.
  const std::int64_t choices = experts_.per_token;
  const double kept = this->kept();
  double reached = 0, ways = 1;
  for (std::int64_t chosen = 0; chosen <= choices; ++chosen) {
    reached += ways * std::pow(kept, chosen) * std::pow(1 - kept, choices - chosen) *
               GroupsOfToken(experts_.count, groups, chosen, limit);
    ways *= static_cast<double>(choices - chosen) / static_cast<double>(chosen + 1);
  }
  return reached;
}

std::int64_t MixtureOperators::tokens_to_nodes() const {
  const std::int64_t count = options_.ranks / options_.near;
  const double sent = static_cast<double>(tokens_) * GroupsReached(count, options_.node_limit) *
                      std::max(options_.load, 1.0);
  return (std::llround(sent) + count - 1) / count * count;
}

std::int64_t MixtureOperators::tokens_to_ranks() const {
  // A router that chooses groups first takes nodes of `near` ranks as groups; a token's experts are
  // in at most `open` of them.
  const std::int64_t count = options_.ranks / options_.near;
  const std::int64_t open = options_.node_limit > 0 ? std::min(options_.node_limit, count) : count;
  const double sent = static_cast<double>(tokens_) *
                      GroupsReached(options_.ranks, open * options_.near) *
                      std::max(options_.load, 1.0);
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

// 8-bit values with an FP32 scale for every 128 (deepep csrc/kernels/internode.cu).
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
// of the chosen experts, the layout, and dispatch, during which the host waits for the counts. Then
// a map of several kernels, and the rows, a token once for each of the rank's experts. HybridEP's
// kernels lay out the rows as they arrive. Backward of dispatch is a combine with the known layout,
// without host waits.
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
  // Sends read the tokens in place.
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
  tape_.Run(options_.fused_rows ? Small("mlp.permute", Bytes(), Bytes())
                                : Small("mlp.permute", dispatched + weights, own + weights),
            reads, {rows.rows, rows.weights});
  tape_.OnBackward([=, this] {
    const Pieces gradients{tape_.GradientOf(rows.rows), tape_.GradientOf(rows.weights), row_map_};
    const Pieces back = ExchangeOnce(
        false, "gradients of tokens",
        options_.fused_rows
            ? Small("mlp.permute.dgrad", Bytes(), Bytes())
            : operators_.Memory("mlp.permute.dgrad", rows.count * width_, own + weights, received),
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
  const Pieces arrived = ExchangeOnce(
      true, "sums of tokens",
      options_.fused_rows ? Small("mlp.unpermute", Bytes(), Bytes())
                          : operators_.Memory("mlp.unpermute", made.tokens * width_, own, received),
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
    tape_.RunBackward(options_.fused_rows
                          ? Small("mlp.unpermute.dgrad", Bytes(), Bytes())
                          : Small("mlp.unpermute.dgrad", DispatchedBytes(tokens_to_ranks()), own),
                      reads, {gradient});
    tape_.Deliver(made.value, gradient);
  });
  return y;
}

}  // namespace stepcast::model
