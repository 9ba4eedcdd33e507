#include "src/model/layer_tape.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::model {
namespace {

Kernel Named(std::string name) { return {.name = std::move(name)}; }

std::vector<std::string> NamesOf(const std::vector<LayerValue>& activations) {
  std::vector<std::string> names;
  for (const LayerValue& activation : activations) names.push_back(activation.name);
  return names;
}

std::vector<std::string> NamesOf(const std::vector<Operation>& operators) {
  std::vector<std::string> names;
  for (const Operation& op : operators) names.push_back(op.kernel.name);
  return names;
}

using Names = std::vector<std::string>;

// The indices of values with this lifetime that begin with the operation.
std::vector<int> BegunBy(const Operation& operation, Lifetime lifetime) {
  std::vector<int> places;
  for (const ValueId value : operation.begins) {
    EXPECT_EQ(value.lifetime, lifetime);
    places.push_back(value.index);
  }
  return places;
}

// A layer y = x + c(b(a(x))), where `b` is the core and keeps its operand and its result:
//   a: x (100 B, kept) -> p (10 B)
//   b: p (kept) -> q (20 B, kept), scratch r (5 B, not kept)
//   c: q (kept) -> s (100 B)
//   add: x, s -> y (100 B)
class ExampleLayer {
 public:
  ExampleLayer() : tape_(DataType::kBf16) {}

  LayerWork Work(Checkpointing checkpointing) {
    const auto x = tape_.Input("x", Bytes(100));
    tape_.Keep(x);
    const auto p = tape_.Make("p", Bytes(10));
    tape_.Run(Named("a"), {x}, {p});
    Differentiate("a.grad", p, x, {0});

    tape_.BeginModule(Module::kAttentionCore);
    tape_.Keep(p);
    const auto q = tape_.Make("q", Bytes(20));
    const auto r = tape_.Make("r", Bytes(5));
    tape_.Keep(q);
    tape_.Run(Named("b"), {p}, {q, r});
    tape_.EndModule();
    Differentiate("b.grad", q, p, {});

    const auto s = tape_.Make("s", Bytes(100));
    tape_.Run(Named("c"), {q}, {s});
    Differentiate("c.grad", s, q, {1});

    const auto y = tape_.Make("y", Bytes(100));
    tape_.Run(Named("add"), {x, s}, {y});
    tape_.OnBackward([this, x, s, y] {
      tape_.Pass(y, x);
      tape_.Pass(y, s);
    });
    return tape_.Finish(y, {.checkpointing = checkpointing});
  }

 private:
  void Differentiate(std::string name, LayerTape::Value y, LayerTape::Value x,
                     std::vector<int> gradients) {
    tape_.OnBackward([this, name, x, y, gradients] {
      const auto dx = tape_.MakeGradient(x);
      tape_.RunBackward(Named(name), {tape_.GradientOf(y)}, {dx}, gradients);
      tape_.Deliver(x, dx);
    });
  }

  LayerTape tape_;
};

TEST(LayerTapeTest, KeepsWhatBackwardNeeds) {
  const LayerWork work = ExampleLayer().Work(Checkpointing::kNone);
  EXPECT_EQ(NamesOf(work.Of(Lifetime::kSaved)), (Names{"x", "p", "q"}));
  ASSERT_EQ(work.forward.size(), 4U);
  EXPECT_EQ(BegunBy(work.forward[0], Lifetime::kSaved),
            (std::vector<int>{0, 1}));  // the input, and p
  EXPECT_EQ(BegunBy(work.forward[1], Lifetime::kSaved), std::vector<int>{2});
  EXPECT_TRUE(work.forward[2].begins.empty());
  EXPECT_TRUE(work.recompute.empty());
  EXPECT_TRUE(work.Of(Lifetime::kRecomputed).empty());
}

// The gradient of x comes from the addition and from `a`; the two are added.
TEST(LayerTapeTest, DifferentiatesInReverse) {
  const LayerWork work = ExampleLayer().Work(Checkpointing::kNone);
  EXPECT_EQ(NamesOf(work.backward), (Names{"c.grad", "b.grad", "a.grad", "x.grad.add"}));
  EXPECT_EQ(work.backward[0].gradients, std::vector<int>{1});
  EXPECT_EQ(work.backward[2].gradients, std::vector<int>{0});
  EXPECT_EQ(work.backward[3].kernel.read, Bytes(200));
  EXPECT_EQ(work.backward[3].kernel.written, Bytes(100));
}

// Forward: s and y at the addition. Backward: dy, which also is ds and the first part of dx, with
// dp and the second part of dx at a.grad.
TEST(LayerTapeTest, CountsWhatIsAliveInPassing) {
  const LayerWork work = ExampleLayer().Work(Checkpointing::kNone);
  EXPECT_EQ(work.forward_transient, Bytes(200));
  EXPECT_EQ(work.backward_transient, Bytes(100 + 10 + 100));
}

// The core's result is kept by `c` as well, so it stays and is made a second time.
TEST(LayerTapeTest, SelectiveRunsTheCoreAgain) {
  const LayerWork work = ExampleLayer().Work(Checkpointing::kSelective);
  EXPECT_EQ(NamesOf(work.Of(Lifetime::kSaved)), (Names{"x", "p", "q"}));
  EXPECT_EQ(NamesOf(work.Of(Lifetime::kRecomputed)), Names{"q"});
  ASSERT_EQ(work.recompute.size(), 1U);
  EXPECT_EQ(work.recompute[0].kernel.name, "b");
  EXPECT_EQ(BegunBy(work.recompute[0], Lifetime::kRecomputed), std::vector<int>{0});
}

TEST(LayerTapeTest, FullKeepsAnInputThatBackwardDoesNotNeed) {
  for (const Checkpointing checkpointing :
       {Checkpointing::kNone, Checkpointing::kFull, Checkpointing::kSelectiveOp}) {
    LayerTape tape(DataType::kBf16);
    const auto x = tape.Input("x", Bytes(100));
    const auto y = tape.Make("y", Bytes(10));
    tape.Run(Named("a"), {x}, {y});
    tape.OnBackward([&] {
      const auto dx = tape.MakeGradient(x);
      tape.RunBackward(Named("a.grad"), {tape.GradientOf(y)}, {dx});
      tape.Deliver(x, dx);
    });
    const LayerWork work = tape.Finish(y, {.checkpointing = checkpointing});
    const bool again = checkpointing != Checkpointing::kNone;
    EXPECT_EQ(NamesOf(work.Of(Lifetime::kSaved)), again ? Names{"x"} : Names{});
    // Values that are not saved are temporaries.
    EXPECT_EQ(work.forward_transient, Bytes(again ? 10 : 110));
  }
}

// The bias is added in place to the product's kept output, so neither runs again.
TEST(LayerTapeTest, SelectiveOpKeepsWhatIsAddedToAProduct) {
  LayerTape tape(DataType::kBf16);
  const auto x = tape.Input("x", Bytes(100));
  const auto y = tape.Make("y", Bytes(10));
  const auto z = tape.Make("z", Bytes(20));
  Kernel product = Named("product");
  product.kind = KernelKind::kGemm;
  tape.Run(product, {x}, {y});
  tape.Run(Named("bias"), {y}, {y});
  tape.Keep(y);
  tape.Run(Named("c"), {y}, {z});
  tape.OnBackward([&] {
    const auto dx = tape.MakeGradient(x);
    tape.RunBackward(Named("c.grad"), {tape.GradientOf(z), y}, {dx});
    tape.Deliver(x, dx);
  });
  const LayerWork work = tape.Finish(z, {.checkpointing = Checkpointing::kSelectiveOp});
  EXPECT_EQ(NamesOf(work.Of(Lifetime::kSaved)), (Names{"x", "y"}));
  EXPECT_EQ(NamesOf(work.Of(Lifetime::kRecomputed)), Names{});
  EXPECT_EQ(NamesOf(work.recompute), Names{"c"});
}

// Forward keeps the input alone. s and y at the addition are still the most that passes by; the
// second forward's scratch, s and y (200) and the waiting dy (100) are more than the backward's
// 210.
TEST(LayerTapeTest, FullKeepsTheInput) {
  const LayerWork work = ExampleLayer().Work(Checkpointing::kFull);
  EXPECT_EQ(NamesOf(work.Of(Lifetime::kSaved)), Names{"x"});
  EXPECT_EQ(BegunBy(work.forward[0], Lifetime::kSaved), std::vector<int>{0});
  EXPECT_EQ(NamesOf(work.Of(Lifetime::kRecomputed)), (Names{"p", "q"}));
  ASSERT_EQ(work.recompute.size(), 4U);
  EXPECT_EQ(BegunBy(work.recompute[0], Lifetime::kRecomputed), std::vector<int>{0});
  EXPECT_EQ(BegunBy(work.recompute[1], Lifetime::kRecomputed), std::vector<int>{1});
  EXPECT_EQ(work.forward_transient, Bytes(200));
  EXPECT_EQ(work.backward_transient, Bytes(300));
}

}  // namespace
}  // namespace stepcast::model
