#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/layer_operators.h"

// The operators of a mixture layer. A router chooses experts for each token, and the tokens' rows
// go to the ranks that have the experts. Grouped products compute each expert on its rows. The rows
// then return and are summed. Order, kernels and kept values follow Megatron-Core
// (megatron/core/transformer/moe @ d98e8a64ddf3: moe_layer.py, router.py, token_dispatcher.py,
// experts.py). WorkOptions::experts may select torchtitan (torchtitan/models/common/moe @
// b5bcd76c6), transformers (transformers_mixture.cc) or DeepSpeed (deepspeed_mixture.cc) instead.
//
// Sizes: n tokens of this rank, k experts per token, E experts, of which the rank has E / ranks.
// Each expert has the rows of a balanced router times ExpertParallel::load.
namespace stepcast::model {

class MixtureOperators {
 public:
  // The product of the router, the first product of the experts (gate next to up if there is a
  // gate), and their second product. `out` is the width of one whole expert.
  struct Modules {
    LinearModule router, gate_up, down;
  };

  MixtureOperators(LayerOperators& operators, const Experts& experts, const Modules& modules);

  // Operators for the second lane (LayerTape::BeginLane), which overlap the exchange of rows.
  // `dispatch` is issued after the exchanges that bring rows to experts, `combine` after the one
  // that returns them.
  struct Beside {
    std::function<void()> dispatch, combine;
  };
  // The experts' output for `x`. The router chooses by `token`, which is `x` unless experts work on
  // a narrower vector. Call once.
  Operand Run(const Operand& token, const Operand& x, Beside beside = {});

 private:
  using Value = LayerTape::Value;

  // Values stored as rows. If the activation applies the weights, each row has an FP32 weight.
  struct Rows {
    Value rows = -1;
    Value weights = -1;
    std::int64_t count = 0;
  };

  bool gated() const { return modules_.gate_up.out > experts_.feed_forward; }
  // Width of one expert.
  std::int64_t inner() const { return experts_.feed_forward; }
  bool divided() const { return options_.ranks * options_.tensor > 1; }
  parallel::AxisSet ranks_and_parts() const;
  std::int64_t local_experts() const { return experts_.count / options_.ranks; }
  // The fraction of a token's rows that experts have room for.
  double kept() const { return std::min(options_.load, 1.0); }
  // rows_of_tokens: rows of the rank's tokens. sent_rows: those not dropped, plus the empty ones
  // that pad experts. received_rows: rows that reach the ranks that have parts of its experts.
  std::int64_t rows_of_tokens() const { return tokens_ * experts_.per_token; }
  std::int64_t sent_rows() const;
  std::int64_t received_rows() const;
  // Rows of an exchange with equal parts: the larger of sent and received.
  std::int64_t exchanged_rows() const;
  double share_of_model() const;  // model's fraction of the rows that experts compute
  Bytes RowBytes(std::int64_t rows) const;
  Bytes WeightBytes(std::int64_t rows) const;
  Kernel Small(std::string_view name, Bytes read, Bytes written) const;
  // Runs the kernel `times` times: operators that are launched one by one.
  void Repeat(bool forward, std::int64_t times, const Kernel& kernel,
              const std::vector<LayerTape::Piece>& reads,
              const std::vector<LayerTape::Piece>& writes);

  // mixture_router.cc.
  void Route(const Operand& x);
  Value Logits(const Operand& x);
  // mixture_dispatch.cc; mixture_tokens_once.cc if tokens are sent once.
  static constexpr std::int64_t kCountSize = 8;  // bytes
  // Transformer Engine's kernels for a permutation's map
  static constexpr std::int64_t kMapKernels = 3;
  // The ranks exchange the numbers of rows, and the host waits for them.
  void Count();
  Rows Permute(const Operand& x);
  // The destination of each row when rows are grouped by expert, or ungrouped.
  Value SortMap(std::string_view name, std::int64_t rows);
  // The exchange that brings rows to the ranks of their experts (mixture_dispatch.cc).
  class RowDispatch;
  Rows Dispatch(const Rows& permuted);
  Rows DispatchToAll(const Operand& x);
  Rows DispatchOnce(const Operand& x);
  // mixture_products.cc.
  Operand RunExperts(const Rows& rows);
  Operand GroupedLinear(const Operand& x, std::string_view name, std::int64_t out,
                        const ModulePositions& parameters, bool completes);
  // One expert's product, in the type of the experts' products. Its model FLOPs are those of the
  // mean rank, without dropped tokens and padding.
  Kernel ExpertProduct(std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
                       ProductLayout layout) const;
  // Experts' products are in 8 or 4 bits in Transformer Engine's layers. torchao's filter takes
  // only linear layers.
  bool quantizes() const { return operators_.quantizes() && options_.weighs_in_activation(); }
  // Rows of each expert, padded as the products' scales require.
  std::int64_t RowsOfExpert(std::int64_t rows) const;
  // Copies each expert's rows to start at such a multiple, or back.
  Operand Padded(const Operand& x, std::string_view name);
  void RunGrouped(bool forward, const Kernel& one, const std::vector<LayerTape::Piece>& reads,
                  const std::vector<LayerTape::Piece>& writes, std::vector<int> gradients,
                  const std::vector<int>& parameters);
  Operand WeightedSwiGlu(const Operand& gate_up, const Rows& rows);
  // GPT-OSS, operation by operation: a bias for each row, by expert; and the clamped gate's sigmoid
  // unit times the other half plus one.
  Operand BiasedRows(const Operand& y, const LinearModule& module);
  Operand ClampedGlu(const Operand& gate_up);

  // transformers_mixture.cc: ExpertImplementation::kTransformers.
  Operand RunTransformers(const Operand& x);
  Operand RunSorted(const Operand& x);
  Operand ProductOfExperts(const Operand& x, const LinearModule& module, std::int64_t out);
  Operand ActivateHalves(const Operand& both);
  Operand AddUpSorted(const Operand& made, Value order, const Operand& x);
  // Values that a loop over the experts keeps; the parts of all experts are contiguous.
  struct LoopValues {
    Value places = -1, rows = -1, gate = -1, up = -1, activated = -1, product = -1, made = -1;
  };
  // Makes the experts' output values for `rows` rows.
  void MakeProducts(std::int64_t rows, LoopValues& loop);
  Operand RunLoop(const Operand& x);
  void RunLoopBackward(const Operand& x, const Operand& y, const LoopValues& loop);
  // One expert of a loop on `rows` rows: three products and the operations between them.
  void RunLoopedExpert(const LoopValues& loop, std::int64_t rows);
  // Its backward. `made`: the gradient of its output. `rows`: the gradient of its rows, to which
  // both products contribute. `last`: it is the last expert.
  struct LoopGradients {
    Value left = -1, right = -1, gate = -1, inside = -1, made = -1, rows = -1, other = -1;
  };
  LoopGradients MakeLoopGradients(std::int64_t rows);
  void RunLoopedExpertBackward(const LoopValues& loop, const LoopGradients& gradients,
                               std::int64_t rows, bool last);
  // Parameters of both products: hooks see the experts as one module.
  std::vector<int> ParametersOfExperts() const;

  // deepspeed_mixture.cc: ExpertImplementation::kDeepSpeed.
  Operand RunSlots(const Operand& token, const Operand& x);
  // Slots of one expert for a rank's tokens, and slots of all experts.
  std::int64_t capacity() const;
  std::int64_t slots() const { return experts_.count * capacity(); }
  // Outputs of the gate: the FP32 weight of each token in each slot, and a 16-bit mask of non-zero
  // weights.
  struct SlotTables {
    Value weights = -1, mask = -1;
  };
  SlotTables ChooseSlots(Value logits);
  // A product with a table of tokens by slots; it does not count as model FLOPs.
  Kernel TableProduct(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k,
                      ProductLayout layout) const;
  Value FillSlots(const Operand& x, Value mask);
  Value ExchangeSlots(std::string_view name, Value rows);
  Value RunLoopOverSlots(Value rows);
  Operand EmptySlots(Value rows, Value weights);

  Operand Combine(const Operand& made, const Operand& x);
  Operand CombineFromAll(const Operand& made, const Operand& x);
  Operand CombineOnce(const Operand& made, const Operand& x);
  Operand AddUpRows(const std::vector<LayerTape::Piece>& returned, Value gradients_of,
                    const Operand& x);
  void UnweighRows(Value rows, Value in_fp32, Value weights);
  void RunBeside(const std::function<void()>& operators);

  // Sends the equal parts of `from` to the other ranks. Returns the rank's own part and the
  // received parts. `first`: the direction, which decides the load.
  std::vector<LayerTape::Piece> Exchange(bool forward, std::string_view name, Value from,
                                         Bytes bytes, AllToAllLoads::First first);
  // The same among some of the ranks, on a given number of multiprocessors.
  struct Reach {
    parallel::AxisSet axes;
    std::int64_t ranks = 1;
    std::optional<int> multiprocessors{};
    std::optional<DataType> type{};  // type of sent elements; none: that of activations
    AllToAllLoads loads{};
  };
  std::vector<LayerTape::Piece> Exchange(bool forward, std::string_view name, Value from,
                                         Bytes bytes, const Reach& reach);
  // Tokens that this rank sends to nodes, its own included, and (tokens_to_ranks) to ranks of its
  // node, if tokens are sent once. Tokens from other nodes are forwarded to the node's ranks as
  // they arrive, so both exchanges overlap.
  std::int64_t tokens_to_nodes() const;
  // The average number of groups, of `groups` groups of experts, that have some of a token's
  // experts that are not dropped (GroupsOfToken).
  double GroupsReached(std::int64_t groups, std::int64_t limit) const;
  std::int64_t tokens_to_ranks() const;
  Reach nodes() const;
  Reach neighbours() const;
  std::optional<int> dispatch_multiprocessors() const;
  // Both exchanges of the data that the `lay_out` kernel prepares. Returns the received pieces for
  // the next kernel. `dispatches`: rows go to experts, in 8 bits if ExpertParallel::dispatches_fp8.
  std::vector<LayerTape::Piece> ExchangeOnce(bool forward, std::string_view name,
                                             const Kernel& lay_out,
                                             const std::vector<LayerTape::Piece>& reads,
                                             bool dispatches = false);
  // Bytes of the rows of `tokens` tokens on their way to experts.
  Bytes DispatchedBytes(std::int64_t tokens) const;
  // Casts rows to 8 bits if they are sent in 8 bits. Returns the value to send.
  Value CastForDispatch(bool forward, Value rows);
  // Gather the rows of all parts of the experts; sum and scatter them.
  Value GatherParts(bool forward, std::string_view name, Value part, Bytes whole, DataType type);
  Value ScatterParts(bool forward, std::string_view name, Value whole, Bytes part, DataType type);

  LayerOperators& operators_;
  LayerTape& tape_;
  const WorkOptions& work_;
  const ExpertParallel& options_;
  const Experts& experts_;
  const Modules modules_;
  Beside beside_;
  std::int64_t tokens_ = 0;  // n
  std::int64_t width_ = 0;   // h
  Value probabilities_ = -1, map_ = -1, row_map_ = -1;
  Value counts_on_host_ = -1;
};

}  // namespace stepcast::model
