#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

// Two ranks divide a block. FP8 keeps the inputs of products in one byte instead of two: both
// norms' outputs, which are whole on each rank, and the feed-forward's input to its second product.
// For the attention output, which the fused core keeps, it adds a one-byte copy.
TEST(DividedWorkTest, Fp8KeepsInputsOfDividedProductsInOneByte) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = Options(1, 64);
  options.tensor = 2;
  const std::int64_t in_16_bits = Sum(BlockOf(a, options).Of(Lifetime::kSaved));
  options.compute = DataType::kFp8;
  const std::int64_t query = a.heads * a.head_size / 2;
  EXPECT_EQ(in_16_bits - Sum(BlockOf(a, options).Of(Lifetime::kSaved)),
            64 * (2 * a.hidden + a.feed_forward / 2 - query));
}

// Four ranks, two key-value heads. A rank makes a quarter of the product's columns. The gathered
// columns contain its quarter of the queries and the key and value head that they use. Backward
// sums the two ranks' gradients of a head and scatters each column's.
TEST(DividedWorkTest, RanksThatShareKeyValueHeadsGatherThem) {
  Architecture a = Shipped("llama3.1-8b");
  a.kv_heads = 2;
  WorkOptions options = Options(1, 64);
  options.tensor = 4;
  options.fuses_products = true;
  const LayerWork work = BlockOf(a, options);
  const std::int64_t columns = (a.heads + 2 * 2) * a.head_size;
  EXPECT_EQ(Find(work, "self_attn.qkv_proj")->n, columns / 4);
  const Kernel* core = Find(work, "self_attn.core");
  EXPECT_EQ(core->batch, a.heads / 4);
  EXPECT_EQ(core->key_heads, 1);
  const auto of_kind = [](const std::vector<Operation>& operations, CollectiveKind kind) {
    std::vector<Bytes> sizes;
    for (const Operation& op : operations) {
      if (op.group && op.group->collective == kind) sizes.push_back(op.group->bytes);
    }
    return sizes;
  };
  EXPECT_EQ(of_kind(work.forward, CollectiveKind::kAllGather),
            std::vector<Bytes>{Bytes(64 * columns * 2)});
  EXPECT_EQ(of_kind(work.backward, CollectiveKind::kReduceScatter),
            std::vector<Bytes>{Bytes(64 * columns * 2)});
  // One head to a rank: nothing is gathered.
  a.kv_heads = 4;
  EXPECT_TRUE(of_kind(BlockOf(a, options).forward, CollectiveKind::kAllGather).empty());
}

// The sum of the input gradients begins before the weight-gradient product, or after it.
TEST(DividedWorkTest, SumsBesideOrBehindWeightGradients) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = Options(1, 64);
  options.tensor = 2;
  for (const bool beside : {true, false}) {
    options.sums_beside_weights = beside;
    const LayerWork work = BlockOf(a, options);
    const auto first_sum = std::find_if(work.backward.begin(), work.backward.end(),
                                        [](const Operation& op) { return op.group.has_value(); });
    ASSERT_NE(first_sum, work.backward.end());
    const auto product = std::find_if(
        work.backward.begin(), work.backward.end(),
        [](const auto& op) { return !op.group && op.kernel.name == "mlp.gate_proj.wgrad"; });
    ASSERT_NE(product, work.backward.end());
    EXPECT_EQ(first_sum < product, beside);
  }
  for (const bool parts : {false, true}) {  // sequence parallelism, too
    options.sums_beside_weights = true;
    options.sequence_parallel = parts;
    options.begins_in_issue_order = false;
    const LayerWork work = BlockOf(a, options);
    const auto sum = std::find_if(work.backward.begin(), work.backward.end(), [](const auto& op) {
      return op.group && op.group->collective != CollectiveKind::kAllGather;
    });
    const auto product = std::find_if(
        work.backward.begin(), work.backward.end(),
        [](const auto& op) { return !op.group && op.kernel.name == "mlp.gate_proj.wgrad"; });
    ASSERT_NE(product, work.backward.end());
    EXPECT_LT(product, sum);
  }
}

struct Communication {
  std::int64_t messages = 0, message_bytes = 0, gathered = 0, scattered = 0;
  std::set<int> distances{}, multiprocessors{};
};

Communication CommunicationOf(const std::vector<Operation>& operations) {
  Communication sum;
  for (const Operation& op : operations) {
    if (!op.group) continue;
    if (op.group->multiprocessors) sum.multiprocessors.insert(*op.group->multiprocessors);
    if (op.group->collective == CollectiveKind::kSendRecv) {
      ++sum.messages;
      sum.message_bytes += op.group->bytes.count();
      sum.distances.insert(op.group->distance);
    } else if (op.group->collective == CollectiveKind::kAllGather) {
      sum.gathered += op.group->bytes.count();
    } else if (op.group->collective == CollectiveKind::kReduceScatter) {
      sum.scattered += op.group->bytes.count();
    }
  }
  return sum;
}

// Gathers before products are t - 1 messages of a rank's part, and sums are in four pieces. In
// backward, output gradients arrive by messages, and inputs are gathered concurrently.
TEST(DividedWorkTest, UserBuffersGatherPieceByPiece) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = Options(1, 64);
  options.tensor = 4;
  options.sequence_parallel = options.regathers = options.fuses_products = true;
  const LayerWork plain = BlockOf(a, options);
  options.tensor_overlap = TensorOverlap::kUserBuffers;
  const LayerWork work = BlockOf(a, options);
  const std::int64_t whole = 64 * a.hidden * 2;
  const Communication forward = CommunicationOf(work.forward);
  EXPECT_EQ(forward.messages, 2 * 3);
  EXPECT_EQ(forward.message_bytes, 2 * whole * 3 / 4);
  EXPECT_EQ(forward.distances, std::set<int>{1});
  EXPECT_EQ(forward.gathered, 0);
  EXPECT_EQ(forward.scattered, 2 * whole);
  EXPECT_EQ(forward.multiprocessors, (std::set<int>{0, 16}));
  const Communication backward = CommunicationOf(work.backward);
  EXPECT_EQ(backward.messages, 2 * 3);
  EXPECT_EQ(backward.gathered, 2 * whole);
  EXPECT_EQ(backward.scattered, 2 * whole);

  EXPECT_EQ(Find(work, "self_attn.qkv_proj")->m, 16);
  EXPECT_EQ(Find(work, "self_attn.o_proj")->m, 16);
  EXPECT_EQ(Find(work, "mlp.down_proj.dgrad")->m, 16);
  // On three streams in turn.
  EXPECT_EQ(Find(work, "self_attn.qkv_proj")->together, 3);
  EXPECT_EQ(Find(work, "mlp.gate_up_proj.dgrad")->together, 1);
  EXPECT_EQ(Find(work, "mlp.gate_up_proj.dgrad")->m, 64);
  EXPECT_EQ(Find(work, "mlp.gate_up_proj.wgrad")->k, 64);
  EXPECT_EQ(ModelFlops(work.forward), ModelFlops(plain.forward));
  EXPECT_EQ(ModelFlops(work.backward), ModelFlops(plain.backward));
  // Ten buffers, four of them without the rank's own part.
  std::set<std::string> names;
  std::int64_t bytes = 0;
  for (const LayerValue& value : work.Of(Lifetime::kCommunicated)) {
    if (!value.registered) continue;
    EXPECT_TRUE(names.insert(value.name).second) << value.name;
    bytes += value.bytes.count();
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(bytes, 6 * whole + 4 * whole * 3 / 4);
}

// Direct messages from every rank to every other; sums are in as many pieces.
TEST(DividedWorkTest, AsynchronousTensorParallelismSendsToEveryRank) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = Options(1, 64);
  options.tensor = 4;
  options.sequence_parallel = options.compiled = true;
  options.tensor_overlap = TensorOverlap::kAsync;
  const LayerWork work = BlockOf(a, options);
  const std::int64_t whole = 64 * a.hidden * 2;
  const Communication forward = CommunicationOf(work.forward);
  EXPECT_EQ(forward.messages, 4 * 3);
  EXPECT_EQ(forward.message_bytes, 4 * whole * 3 / 4);
  EXPECT_EQ(forward.distances, (std::set<int>{1, 2, 3}));
  EXPECT_EQ(forward.gathered + forward.scattered, 0);
  EXPECT_EQ(forward.multiprocessors, std::set<int>{0});
  EXPECT_EQ(Find(work, "mlp.down_proj")->m, 16);
  EXPECT_EQ(Find(work, "mlp.down_proj")->together, 2);
  for (const LayerValue& value : work.Of(Lifetime::kCommunicated))
    EXPECT_FALSE(value.registered) << value.name;
}

// DTensor divides the second dimension. NCCL stores the ranks' parts of all sequences one after the
// other, so each of two gathers and two reduce-scatters needs a copy of all tokens, forward and
// backward. Backward starts after a block's last one, so recomputation has three.
TEST(DividedWorkTest, DividedSequencesAreCopiedIntoOrder) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = Options(3, 256);
  options.tensor = 4;
  options.sequence_parallel = true;
  const Bytes all(3 * 256 * a.hidden * 2);
  const auto copies = [&](const std::vector<Operation>& operations) {
    int count = 0;
    for (const Operation& op : operations) {
      if (!op.kernel.name.ends_with(".order")) continue;
      EXPECT_EQ(op.kernel.read, all) << op.kernel.name;
      EXPECT_EQ(op.kernel.written, all) << op.kernel.name;
      ++count;
    }
    return count;
  };
  EXPECT_EQ(copies(BlockOf(a, options).forward), 0);
  options.divides_sequences = true;
  const LayerWork work = BlockOf(a, options);
  EXPECT_EQ(copies(work.forward), 4);
  EXPECT_EQ(copies(work.backward), 4);
  options.checkpointing = Checkpointing::kFull;
  options.recompute_stops_early = true;
  EXPECT_EQ(copies(BlockOf(a, options).recompute), 3);
}

// Four ranks that divide tokens, as Megatron-LM does.
WorkOptions DividedTokens(DataType compute) {
  WorkOptions options = Options(1, 64);
  options.compute = compute;
  options.tensor = 4;
  options.casts_weights = false;
  options.sequence_parallel = options.regathers = options.fuses_products = true;
  return options;
}

// Each rank casts its part, and half as many bytes are gathered; sums stay in 16 bits.
TEST(DividedWorkTest, Fp8IsGatheredInOneByte) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = DividedTokens(DataType::kFp8);
  const std::int64_t whole = 64 * a.hidden * 2;
  for (const TensorOverlap overlap : {TensorOverlap::kNone, TensorOverlap::kUserBuffers}) {
    options.tensor_overlap = overlap;
    const LayerWork work = BlockOf(a, options);
    const Communication forward = CommunicationOf(work.forward);
    const bool whole_at_once = overlap == TensorOverlap::kNone;
    EXPECT_EQ(forward.gathered, whole_at_once ? 2 * whole / 2 : 0);
    EXPECT_EQ(forward.message_bytes, whole_at_once ? 0 : 2 * whole / 2 * 3 / 4);
    EXPECT_EQ(forward.scattered, 2 * whole);
    EXPECT_EQ(Find(work, "gathered.input.cast")->written, Bytes(16 * a.hidden));
    EXPECT_EQ(Find(work, "mlp.down_proj.output_grad.cast")->written, Bytes(16 * a.hidden));
  }
}

// torchao's layers cast a rank's part before it is gathered, once, whatever the framework keeps.
TEST(DividedWorkTest, TorchaoGathersEightBits) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = Options(1, 64);
  options.tensor = 4;
  options.sequence_parallel = true;
  const Communication in_16_bits = CommunicationOf(BlockOf(a, options).forward);
  options.compute = DataType::kFp8;
  options.fp8_scaling = Fp8Scaling::kTorchao;
  const LayerWork work = BlockOf(a, options);
  EXPECT_EQ(CommunicationOf(work.forward).gathered, in_16_bits.gathered / 2);
  EXPECT_EQ(CommunicationOf(work.forward).scattered, in_16_bits.scattered);
  EXPECT_EQ(CommunicationOf(work.backward).gathered, in_16_bits.gathered / 2);
  EXPECT_EQ(Find(work, "gathered.input.amax")->read, Bytes(2 * 16 * a.hidden));
  EXPECT_EQ(Find(work, "gathered.input.cast")->read, Bytes(2 * 16 * a.hidden));
  // Queries, keys and values share the transposed input; backward reaches the last of them first.
  EXPECT_NE(Find(work, "self_attn.v_proj.input.transpose"), nullptr);
  EXPECT_EQ(Find(work, "self_attn.q_proj.input.transpose"), nullptr);
}

// Gathered parts share one scale. Before both inputs and both output gradients are cast, the ranks
// agree on the maximum if it is read from the tensor itself. Delayed scales and block scales need
// no agreement.
TEST(DividedWorkTest, RanksAgreeOnTheScaleOfWhatIsGathered) {
  const Architecture a = Shipped("llama3.1-8b");
  const auto agreed = [&](const WorkOptions& options) {
    const LayerWork work = BlockOf(a, options);
    const auto count = [](const std::vector<Operation>& operations) {
      return std::count_if(operations.begin(), operations.end(), [](const Operation& op) {
        return op.group && op.group->collective == CollectiveKind::kAllReduce &&
               op.group->bytes == Bytes(4);
      });
    };
    return std::pair(count(work.forward), count(work.backward));
  };
  WorkOptions options = DividedTokens(DataType::kFp8);
  EXPECT_EQ(agreed(options), std::pair(0L, 0L));
  options.fp8_scaling = Fp8Scaling::kCurrent;
  EXPECT_EQ(agreed(options), std::pair(2L, 2L));
  EXPECT_EQ(agreed(DividedTokens(DataType::kMxfp8)), std::pair(0L, 0L));
  EXPECT_EQ(agreed(DividedTokens(DataType::kNvfp4)), std::pair(2L, 2L));
  options.sequence_parallel = options.regathers = false;
  EXPECT_EQ(agreed(options), std::pair(0L, 0L));
}

// Parts are cast by rows and by columns, and one of the copies is gathered; for gradients both.
// Nothing is transposed.
TEST(DividedWorkTest, Mxfp8IsGatheredAsItIsRead) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = DividedTokens(DataType::kMxfp8);
  const std::int64_t whole = 64 * a.hidden / 32 * 33;
  const LayerWork work = BlockOf(a, options);
  const Communication forward = CommunicationOf(work.forward);
  const Communication backward = CommunicationOf(work.backward);
  EXPECT_EQ(forward.gathered, 2 * whole);
  EXPECT_EQ(backward.gathered, (2 + 2 * 2) * whole);
  EXPECT_EQ(Find(work, "gathered.input.cast")->written, Bytes(2 * whole / 4));
  EXPECT_EQ(Find(work, "mlp.down_proj.output_grad.cast")->written, Bytes(2 * whole / 4));
  for (const Operation& op : work.backward) {
    EXPECT_FALSE(op.kernel.name.ends_with(".transpose")) << op.kernel.name;
  }
  options.compute = DataType::kFp8;
  EXPECT_NE(Find(BlockOf(a, options), "mlp.down_proj.output_grad.transpose"), nullptr);
}

// PyTorch's cross entropy over a divided vocabulary writes each step's result to new memory. In
// backward, the loss's gradient, exponentials, their sum and the result are alive together with the
// kept log-softmax: one more FP32 copy of the logits.
TEST(DividedWorkTest, LossOfDTensorsTakesACopyMore) {
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = Options(1, 512);
  options.tensor = 8;
  options.loss = Loss::kEager;
  const LayerWork other = TransformerWork(a, options)[kHead];
  options.divides_sequences = true;
  const LayerWork torch = TransformerWork(a, options)[kHead];
  const Bytes copy(512 * (128256 / 8) * 4);
  EXPECT_EQ(torch.backward_transient, other.backward_transient + copy);
  EXPECT_GT(torch.forward_transient, other.forward_transient + copy);
  EXPECT_EQ(Sum(torch.Of(Lifetime::kSaved)), Sum(other.Of(Lifetime::kSaved)));
}

}  // namespace
}  // namespace stepcast::model
