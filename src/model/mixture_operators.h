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
// are sent to the ranks of these experts. Grouped GEMMs run each expert on its rows. The rows are
// then sent back and summed. Order, kernels and kept values follow Megatron-Core
// (megatron/core/transformer/moe @ d98e8a64ddf3: moe_layer.py, router.py, token_dispatcher.py,
// experts.py), or as WorkOptions::experts selects, torchtitan (torchtitan/models/common/moe @
// b5bcd76c6), transformers (transformers_mixture.cc) or DeepSpeed (deepspeed_mixture.cc).
//
// A rank has n tokens, with k experts per token, and E / ranks of the E experts. Each expert has
// ExpertParallel::load times as many rows as with a balanced router.
namespace stepcast::model {

class MixtureOperators {
 public:
  // The router's linear layer, the experts' first linear layer (including gate and up if there is a
  // gate), and the experts' second linear layer. `out` is the full width of one expert.
  struct Modules {
    LinearModule router, gate_up, down;
  };

  MixtureOperators(LayerOperators& operators, const Experts& experts, const Modules& modules);

  // Operators that run on the second lane (LayerTape::BeginLane) while rows are exchanged.
  // `dispatch` is issued after the exchanges that send rows to experts; `combine` is issued after
  // the exchange that sends rows back.
  struct Beside {
    std::function<void()> dispatch, combine;
  };
  // Returns the experts' output for `x`. The router chooses experts from `token`, which equals `x`
  // unless experts read a latent vector. Call once.
  Operand Run(const Operand& token, const Operand& x, Beside beside = {});

 private:
  using Value = LayerTape::Value;

  // Values stored as `count` rows. If the activation function applies the weights, each row has an
  // FP32 weight.
  struct Rows {
    Value rows = -1;
    Value weights = -1;
    std::int64_t count = 0;
  };

  bool gated() const { return modules_.gate_up.out > experts_.feed_forward; }
  // Returns the width of one expert.
  std::int64_t inner() const { return experts_.feed_forward; }
  bool divided() const { return options_.ranks * options_.tensor > 1; }
  parallel::AxisSet ranks_and_parts() const;
  std::int64_t local_experts() const { return experts_.count / options_.ranks; }
  // Returns the fraction of the tokens' rows that experts do not drop.
  double kept() const { return std::min(options_.load, 1.0); }
  // `rows_of_tokens`: rows of the rank's own tokens. `sent_rows`: these rows, without dropped rows
  // and with the empty rows that pad experts. `received_rows`: rows that the ranks with parts of
  // this rank's experts receive.
  std::int64_t rows_of_tokens() const { return tokens_ * experts_.per_token; }
  std::int64_t sent_rows() const;
  std::int64_t received_rows() const;
  // Returns the number of rows in an exchange with equal parts: the larger of `sent_rows` and
  // `received_rows`, rounded up to a multiple of the ranks.
  std::int64_t exchanged_rows() const;
  double share_of_model() const;  // fraction of the computed rows that model FLOPs count
  Bytes RowBytes(std::int64_t rows) const;
  Bytes WeightBytes(std::int64_t rows) const;
  Kernel Small(std::string_view name, Bytes read, Bytes written) const;
  // Runs the kernel `times` times, for operators that are launched one by one.
  void Repeat(bool forward, std::int64_t times, const Kernel& kernel,
              const std::vector<LayerTape::Piece>& reads,
              const std::vector<LayerTape::Piece>& writes);

  // Defined in mixture_router.cc.
  void Route(const Operand& x);
  Value Logits(const Operand& x);
  // The following functions are defined in mixture_dispatch.cc or, for tokens that are sent once,
  // in mixture_tokens_once.cc.
  static constexpr std::int64_t kCountSize = 8;  // bytes
  // The number of Transformer Engine's kernels that compute a permutation's map.
  static constexpr std::int64_t kMapKernels = 3;
  // Exchanges the numbers of rows among the ranks. The host waits for these numbers.
  void Count();
  Rows Permute(const Operand& x);
  // Returns a map with each row's destination. The map groups rows by expert or restores their
  // order.
  Value SortMap(std::string_view name, std::int64_t rows);
  // The exchange that sends rows to the ranks of their experts (mixture_dispatch.cc).
  class RowDispatch;
  Rows Dispatch(const Rows& permuted);
  Rows DispatchToAll(const Operand& x);
  Rows DispatchOnce(const Operand& x);
  // Defined in mixture_products.cc.
  Operand RunExperts(const Rows& rows);
  void Stash(const Operand& output, Bytes kept);
  Operand GroupedLinear(const Operand& x, std::string_view name, std::int64_t out,
                        const ModulePositions& parameters, bool completes);
  // Returns one expert's GEMM, in the data type of the experts' GEMMs. The GEMM's model FLOPs are
  // the model FLOPs of an average rank, without dropped tokens and padding.
  Kernel ExpertProduct(std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
                       ProductLayout layout) const;
  // Returns whether the experts' GEMMs are in 8 or 4 bits. True for Transformer Engine. False for
  // torchao, whose filter selects only linear layers.
  bool quantizes() const { return operators_.quantizes() && options_.weighs_in_activation(); }
  // Returns the number of rows of each expert, padded to the multiple that the scales of GEMM
  // operands require.
  std::int64_t RowsOfExpert(std::int64_t rows) const;
  // Copies rows so that each expert's rows start at a multiple of the size that the scales of GEMM
  // operands require, or reverses this copy. Returns x if no copy is needed.
  Operand Padded(const Operand& x, std::string_view name);
  void RunGrouped(bool forward, const Kernel& one, const std::vector<LayerTape::Piece>& reads,
                  const std::vector<LayerTape::Piece>& writes, std::vector<int> gradients,
                  const std::vector<int>& parameters);
  Operand WeightedSwiGlu(const Operand& gate_up, const Rows& rows);
  // Operations of GPT-OSS as separate kernels. BiasedRows adds to each row the bias of the row's
  // expert. ClampedGlu multiplies two halves: the clamped gate times its sigmoid, and the other
  // half plus one.
  Operand BiasedRows(const Operand& y, const LinearModule& module);
  Operand ClampedGlu(const Operand& gate_up);

  // ExpertImplementation::kTransformers (transformers_mixture.cc).
  Operand RunTransformers(const Operand& x);
  Operand RunSorted(const Operand& x);
  Operand ProductOfExperts(const Operand& x, const LinearModule& module, std::int64_t out);
  Operand ActivateHalves(const Operand& both);
  Operand AddUpSorted(const Operand& made, Value order, const Operand& x);
  // The values that a loop over the experts keeps. Each value has contiguous parts for all experts.
  struct LoopValues {
    Value places = -1, rows = -1, gate = -1, up = -1, activated = -1, product = -1, made = -1;
  };
  // Creates the values of `loop` for the outputs of the experts' GEMMs on `rows` rows.
  void MakeProducts(std::int64_t rows, LoopValues& loop);
  Operand RunLoop(const Operand& x);
  void RunLoopBackward(const Operand& x, const Operand& y, const LoopValues& loop);
  // Runs one expert of a loop on `rows` rows: three GEMMs and the operations between them.
  void RunLoopedExpert(const LoopValues& loop, std::int64_t rows);
  // Gradients in the backward of one looped expert. `made`: gradient of the expert's output.
  // `rows`: gradient of the expert's rows, to which the backward of the gate and of the up
  // projection add. `last` in RunLoopedExpertBackward: the expert's backward runs last.
  struct LoopGradients {
    Value left = -1, right = -1, gate = -1, inside = -1, made = -1, rows = -1, other = -1;
  };
  LoopGradients MakeLoopGradients(std::int64_t rows);
  void RunLoopedExpertBackward(const LoopValues& loop, const LoopGradients& gradients,
                               std::int64_t rows, bool last);
  // Returns the parameters of the experts' linear layers. For hooks, the experts are one module.
  std::vector<int> ParametersOfExperts() const;

  // ExpertImplementation::kDeepSpeed (deepspeed_mixture.cc).
  Operand RunSlots(const Operand& token, const Operand& x);
  // `capacity`: the number of slots that one expert has for a rank's tokens. `slots`: the slots of
  // all experts.
  std::int64_t capacity() const;
  std::int64_t slots() const { return experts_.count * capacity(); }
  // The outputs of the gate: the FP32 weight of each token in each slot, and a 16-bit mask of the
  // non-zero weights.
  struct SlotTables {
    Value weights = -1, mask = -1;
  };
  SlotTables ChooseSlots(Value logits);
  // Returns the GEMM of a matrix and a table of tokens by slots. Model FLOPs do not include this
  // GEMM.
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

  // Divides `from` equally among the ranks, and sends each other rank its part. Returns the part
  // that this rank keeps, and the received parts. `first` selects the loads of the exchange.
  std::vector<LayerTape::Piece> Exchange(bool forward, std::string_view name, Value from,
                                         Bytes bytes, AllToAllLoads::First first);
  // The ranks and the settings of an exchange.
  struct Reach {
    parallel::AxisSet axes;  // the axes of the ranks that exchange
    std::int64_t ranks = 1;
    std::optional<int> multiprocessors{};  // that the exchange occupies; not set: the default
    std::optional<DataType> type{};  // type of sent elements; not set: the type of activations
    AllToAllLoads loads{};
  };
  std::vector<LayerTape::Piece> Exchange(bool forward, std::string_view name, Value from,
                                         Bytes bytes, const Reach& reach);
  // For dispatchers that send each token once. `tokens_to_nodes`: tokens that this rank sends to
  // nodes, including its own node. `tokens_to_ranks`: tokens that this rank sends to ranks of its
  // node, including forwarded tokens. The two exchanges overlap.
  std::int64_t tokens_to_nodes() const;
  // Returns the average number of groups with at least one of a token's experts (GroupsOfToken), if
  // there are `groups` groups. Experts that drop the token are not included.
  double GroupsReached(std::int64_t groups, std::int64_t limit) const;
  std::int64_t tokens_to_ranks() const;
  Reach nodes() const;
  Reach neighbours() const;
  std::optional<int> dispatch_multiprocessors() const;
  // Runs the exchanges between nodes and within nodes of the data that the kernel `lay_out`
  // prepares. Returns the received pieces. `dispatches`: rows are sent to experts, in 8 bits if
  // ExpertParallel::dispatches_fp8 is set.
  std::vector<LayerTape::Piece> ExchangeOnce(bool forward, std::string_view name,
                                             const Kernel& lay_out,
                                             const std::vector<LayerTape::Piece>& reads,
                                             bool dispatches = false);
  // Returns the bytes of the rows of `tokens` tokens that are sent to experts.
  Bytes DispatchedBytes(std::int64_t tokens) const;
  // Casts rows to 8 bits if they are sent in 8 bits. Returns the value to send.
  Value CastForDispatch(bool forward, Value rows);
  // GatherParts gathers the rows among the ranks that have parts of the same experts. ScatterParts
  // sums the rows over these ranks and scatters the sums.
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
