#include "src/formats/kineto.h"

#include <cstddef>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"

namespace stepcast::formats {
namespace {

// Builds a trace, event by event; times are in microseconds.
class Builder {
 public:
  Builder& Step(int number, int start, int duration) {
    return Add("user_annotation", fmt::format("ProfilerStep#{}", number), start, duration, 1, "");
  }
  Builder& Update(int start, int duration) {
    return Add("user_annotation", "Optimizer.step#AdamW.step", start, duration, 1, "");
  }
  Builder& Forward(const char* name, int sequence, int start, int duration) {
    return Add("cpu_op", name, start, duration, 1,
               fmt::format("\"Sequence number\": {}, \"Fwd thread id\": 0", sequence));
  }
  Builder& Backward(const char* node, int sequence, int start, int duration) {
    return Add("cpu_op", fmt::format("autograd::engine::evaluate_function: {}", node), start,
               duration, 2, fmt::format("\"Sequence number\": {}, \"Fwd thread id\": 1", sequence));
  }
  Builder& Inside(const char* name, int sequence, int start, int duration) {
    return Add("cpu_op", name, start, duration, 2,
               fmt::format("\"Sequence number\": {}, \"Fwd thread id\": 1", sequence));
  }
  // The engine's event, and inside it the node's own event with the shape.
  Builder& Gradient(const std::vector<int>& dims, int start, int duration) {
    constexpr const char* kNode = "torch::autograd::AccumulateGrad";
    Add("cpu_op", fmt::format("autograd::engine::evaluate_function: {}", kNode), start, duration, 2,
        "\"Sequence number\": 9223372036854775807");
    if (dims.empty()) return Add("cpu_op", kNode, start + 1, duration - 2, 2, "");
    return Add("cpu_op", kNode, start + 1, duration - 2, 2,
               fmt::format("\"Input Dims\": [[{}]]", fmt::join(dims, ", ")));
  }
  Builder& Kernel(int launch, int start, int duration) {
    Launch(launch);
    return Add("kernel", "void gemm", start, duration, 7,
               fmt::format("\"correlation\": {}, \"stream\": 7", correlation_));
  }
  Builder& AllReduce(int elements, int launch, int start, int duration) {
    Launch(launch);
    std::string arguments = fmt::format("\"correlation\": {}", correlation_);
    if (elements > 0) {
      arguments += fmt::format(
          ", \"Collective name\": \"allreduce\", \"In msg nelems\": {}, \"dtype\": \"Float\", "
          "\"Group size\": 8",
          elements);
    }
    return Add("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", start, duration,
               30, arguments);
  }
  std::string Text() const {
    return fmt::format("{{\"schemaVersion\": 1, \"traceEvents\": [\n{}\n], \"x\": 1}}",
                       fmt::join(events_, ",\n"));
  }

 private:
  Builder& Launch(int at) {
    ++correlation_;
    return Add("cuda_runtime", "cudaLaunchKernel", at, 2, 1,
               fmt::format("\"correlation\": {}", correlation_));
  }
  Builder& Add(const char* category, const std::string& name, int start, int duration, int thread,
               const std::string& arguments) {
    // Kineto's format: microseconds since 1970.
    events_.push_back(fmt::format(
        "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 1, \"tid\": {}, \"ts\": "
        "1666149715{:06}.25, \"dur\": {}, \"args\": {{{}}}}}",
        category, name, thread, start, duration, arguments));
    return *this;
  }

  int correlation_ = 0;
  std::vector<std::string> events_;
};

// Two layers. The host runs ahead in the forward pass: the second layer's kernel ends at 1400,
// while the backward pass begins at 1300.
Builder TwoLayers() {
  Builder builder;
  builder.Step(7, 1000, 990).Step(8, 2000, 990);
  builder.Forward("aten::addmm", 10, 1100, 50).Kernel(1110, 1120, 60);
  builder.Forward("aten::addmm", 11, 1200, 50).Kernel(1210, 1220, 180);
  builder.Backward("AddmmBackward0", 11, 1300, 40).Kernel(1310, 1400, 100);
  builder.Gradient({4, 5}, 1340, 5).Gradient({5}, 1346, 4).AllReduce(25, 1348, 1500, 100);
  builder.Backward("AddmmBackward0", 10, 1350, 40).Kernel(1360, 1500, 60);
  builder.Gradient({5, 5}, 1390, 5).AllReduce(25, 1394, 1600, 150);
  builder.Kernel(1700, 1760, 40);  // the optimizer's
  return builder;
}

TEST(Kineto, DividesAStepIntoItsLayers) {
  const auto step = ParseKineto(TwoLayers().Text(), "trace.json", 7);
  ASSERT_TRUE(step.has_value()) << Format(step.error());
  EXPECT_EQ(step->number, 7);
  EXPECT_EQ(step->duration, Microseconds(1000));
  // From 1000 to 1400, the end of the second layer's kernel.
  EXPECT_EQ(step->forward, Microseconds(400));
  // Until 1560, the end of the last kernel launched before the last gradient.
  EXPECT_EQ(step->backward, Microseconds(160));
  EXPECT_EQ(step->exposed_communication, Microseconds(1750 - 1560));
  EXPECT_EQ(step->kernels, Microseconds(60 + 180 + 100 + 60 + 40));
  EXPECT_EQ(step->layers.optimizer_step, Microseconds(1000 - 400 - 160 - 190));
  EXPECT_EQ(step->micro_batches, 1);

  const auto& layers = step->layers.layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "addmm.0");
  EXPECT_EQ(layers[0].parameters, (std::vector<std::int64_t>{25}));
  EXPECT_EQ(layers[0].forward, Microseconds(200));  // until the second one's start, 1200
  EXPECT_EQ(layers[0].backward, Microseconds(60));  // from 1500 to 1560
  // Gradients become ready in reverse order of registration.
  EXPECT_EQ(layers[1].parameters, (std::vector<std::int64_t>{5, 20}));
  EXPECT_EQ(layers[1].forward, Microseconds(200));
  EXPECT_EQ(layers[1].backward, Microseconds(100));  // from 1400 to 1500

  ASSERT_EQ(step->collectives.size(), 2u);
  EXPECT_EQ(step->collectives[0].elements, 25);
  EXPECT_EQ(step->collectives[0].ranks, 8);
  EXPECT_EQ(step->collectives[0].start, Microseconds(500));
  EXPECT_EQ(step->collectives[1].duration, Microseconds(150));
  EXPECT_TRUE(step->collectives[1].gradients);
}

TEST(Kineto, TakesTheHostsTimesWhereItIsSlower) {
  Builder builder;
  builder.Step(0, 0, 1000);
  builder.Forward("aten::addmm", 1, 100, 50).Kernel(110, 120, 10);
  builder.Backward("AddmmBackward0", 1, 400, 40).Kernel(410, 420, 10);
  builder.Gradient({3}, 500, 100);
  const auto step = ParseKineto(builder.Text(), "trace.json", std::nullopt);
  ASSERT_TRUE(step.has_value()) << Format(step.error());
  EXPECT_EQ(step->forward, Microseconds(400));
  EXPECT_EQ(step->backward, Microseconds(200));
  EXPECT_EQ(step->layers.optimizer_step, Microseconds(400));
  EXPECT_FALSE(step->notes.empty());  // no all-reduce
}

TEST(Kineto, TakesTheMedianStep) {
  Builder builder;
  int start = 0;
  for (const int duration : {900, 300, 500}) {
    builder.Step(start, start, duration);
    builder.Backward("AddmmBackward0", start, start + 100, 40).Gradient({3}, start + 150, 10);
    start += duration;
  }
  const auto step = ParseKineto(builder.Text(), "trace.json", std::nullopt);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->number, 1200);
  EXPECT_EQ(step->duration, Microseconds(500));
}

// Two micro-batches of 300 us; the gradients of the second are reduced. A node's own event has its
// sequence number too.
TEST(Kineto, TakesTheLastOfSeveralMicroBatches) {
  Builder builder;
  builder.Step(0, 0, 1000);
  builder.Forward("aten::addmm", 1, 0, 50);
  builder.Backward("AddmmBackward0", 1, 100, 40).Inside("AddmmBackward0", 1, 110, 20);
  builder.Gradient({3}, 280, 20);
  builder.Forward("aten::addmm", 2, 310, 50);
  builder.Backward("AddmmBackward0", 2, 400, 40).Gradient({3}, 580, 20);
  const auto step = ParseKineto(builder.Text(), "trace.json", std::nullopt);
  ASSERT_TRUE(step.has_value()) << Format(step.error());
  EXPECT_EQ(step->micro_batches, 2);
  EXPECT_EQ(step->forward, Microseconds(100));
  EXPECT_EQ(step->backward, Microseconds(200));
  EXPECT_EQ(step->layers.layers.size(), 1u);
  EXPECT_EQ(step->layers.optimizer_step, Microseconds(400));
}

TEST(Kineto, TakesBucketsWhereShapesAreMissing) {
  Builder builder;
  builder.Step(0, 0, 1000);
  builder.Backward("AddmmBackward0", 1, 100, 40).Gradient({}, 150, 10).AllReduce(7, 155, 160, 20);
  builder.Backward("AddmmBackward0", 0, 200, 40).Gradient({}, 250, 10).AllReduce(9, 255, 260, 20);
  const auto step = ParseKineto(builder.Text(), "trace.json", std::nullopt);
  ASSERT_TRUE(step.has_value()) << Format(step.error());
  ASSERT_EQ(step->layers.layers.size(), 2u);
  EXPECT_EQ(step->layers.layers[0].parameters, (std::vector<std::int64_t>{9}));
  EXPECT_EQ(step->layers.layers[0].backward, Microseconds(100));
  EXPECT_EQ(step->layers.layers[1].parameters, (std::vector<std::int64_t>{7}));
  EXPECT_EQ(step->layers.layers[1].backward, Microseconds(55));
  // Divided like the backward pass: 100 us in the ratio 55 to 100.
  EXPECT_EQ(step->layers.layers[0].forward + step->layers.layers[1].forward, Microseconds(100));
  EXPECT_GT(step->layers.layers[0].forward, step->layers.layers[1].forward);
}

// With two parameters of 9 and 7 elements, the second one's gradient is ready first.
TEST(Kineto, TakesAModelsSizesWhereShapesAreMissing) {
  Builder builder;
  builder.Step(0, 0, 1000);
  builder.Backward("AddmmBackward0", 1, 100, 40).Gradient({}, 150, 10);
  builder.Backward("AddmmBackward0", 0, 200, 40).Gradient({}, 250, 10);
  const auto step = ParseKineto(builder.Text(), "trace.json", std::nullopt, {9, 7});
  ASSERT_TRUE(step.has_value()) << Format(step.error());
  ASSERT_EQ(step->layers.layers.size(), 2u);
  EXPECT_EQ(step->layers.layers[0].parameters, (std::vector<std::int64_t>{9}));
  EXPECT_EQ(step->layers.layers[1].parameters, (std::vector<std::int64_t>{7}));
  const auto other = ParseKineto(builder.Text(), "trace.json", std::nullopt, {9, 7, 5});
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error()[0].code, "kineto.other-model");
}

// Steps 0 to 400 and 400 to 900; the shorter is the median of two.
TEST(Kineto, StepsWithoutAnnotationsEndWithTheOptimizer) {
  Builder builder;
  builder.Forward("aten::addmm", 0, 0, 20);
  builder.Backward("AddmmBackward0", 0, 200, 40).Gradient({7}, 250, 10).Update(300, 100);
  builder.Forward("aten::addmm", 1, 420, 20);
  builder.Backward("AddmmBackward0", 1, 700, 40).Gradient({7}, 750, 10).Update(800, 100);
  const auto step = ParseKineto(builder.Text(), "trace.json", std::nullopt);
  ASSERT_TRUE(step.has_value()) << Format(step.error());
  EXPECT_EQ(step->number, 0);
  EXPECT_EQ(step->duration, Microseconds(400));
  EXPECT_EQ(step->forward, Microseconds(200));
  EXPECT_NE(step->notes.back().find("the optimizer's"), std::string::npos);
  const auto second = ParseKineto(builder.Text(), "trace.json", 1);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->duration, Microseconds(500));
}

// 100 to 260: from the first operator to the last.
TEST(Kineto, ATraceWithoutStepsIsOne) {
  Builder builder;
  builder.Forward("aten::addmm", 0, 100, 20);
  builder.Backward("AddmmBackward0", 0, 200, 40).Gradient({7}, 250, 10);
  const auto step = ParseKineto(builder.Text(), "trace.json", std::nullopt);
  ASSERT_TRUE(step.has_value()) << Format(step.error());
  EXPECT_EQ(step->duration, Microseconds(160));
  EXPECT_NE(step->notes.back().find("the complete trace"), std::string::npos);
}

// A step that had only begun when tracing ended is not used.
TEST(Kineto, StepsWithoutABackwardAreNotTaken) {
  Builder builder;
  builder.Step(1, 0, 500).Step(2, 500, 10);
  builder.Backward("AddmmBackward0", 0, 200, 40).Gradient({7}, 250, 10);
  const auto step = ParseKineto(builder.Text(), "trace.json", std::nullopt);
  ASSERT_TRUE(step.has_value()) << Format(step.error());
  EXPECT_EQ(step->number, 1);
}

void ExpectFault(const std::string& text, const std::string& code) {
  const auto step = ParseKineto(text, "trace.json", std::nullopt);
  ASSERT_FALSE(step.has_value()) << text;
  EXPECT_EQ(step.error().at(0).code, code);
  EXPECT_EQ(step.error().at(0).location.file, "trace.json");
}

TEST(Kineto, SaysWhatTracesLack) {
  ExpectFault("", "file.not-json");
  ExpectFault("[1, 2]", "file.not-json");
  ExpectFault(TwoLayers().Text().substr(0, 900), "file.not-json");
  ExpectFault("{\"traceEvents\": []}", "kineto.no-step");
  ExpectFault("{\"traceEvents\": [{\"ph\": \"X\", \"ts\": \"late\"}, 3, null, {}]}",
              "kineto.no-step");
  ExpectFault(Builder().Step(0, 0, 10).Text(), "kineto.no-backward");
  ExpectFault(Builder()
                  .Step(0, 0, 1000)
                  .Backward("AddmmBackward0", 1, 100, 40)
                  .Gradient({}, 150, 10)
                  .AllReduce(0, 155, 160, 20)
                  .Text(),
              "kineto.no-sizes");
  const auto other = ParseKineto(TwoLayers().Text(), "trace.json", 12);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error()[0].code, "kineto.no-such-step");
}

// A trace is never in memory as a whole; a block may end anywhere.
TEST(Kineto, IsReadByBlocks) {
  const std::string text = TwoLayers().Text();
  const auto whole = ParseKineto(text, "trace.json", 7);
  ASSERT_TRUE(whole.has_value());
  for (const std::size_t size : {1, 7, 4096}) {
    std::string_view rest = text;
    const auto next = [&] {
      const std::string_view block = rest.substr(0, size);
      rest.remove_prefix(block.size());
      return block;
    };
    const auto step = ParseKineto(next, "trace.json", 7);
    ASSERT_TRUE(step.has_value()) << Format(step.error());
    EXPECT_EQ(step->layers.layers.size(), whole->layers.layers.size());
    EXPECT_EQ(step->duration, whole->duration);
    EXPECT_EQ(step->backward, whole->backward);
  }
}

// Only the first input counts, and only integers.
TEST(Kineto, ShapesThatAreNoneAreNotRecorded) {
  const auto elements_of = [](const std::string& dims) -> std::int64_t {
    std::string text =
        Builder().Step(0, 0, 1000).Backward("A0", 1, 100, 40).Gradient({4}, 150, 10).Text();
    text.replace(text.find("[[4]]"), 5, dims);
    const auto step = ParseKineto(text, "trace.json", std::nullopt);
    return step ? step->layers.layers.at(0).parameters.at(0) : 0;
  };
  EXPECT_EQ(elements_of("[[4]]"), 4);
  EXPECT_EQ(elements_of("[[4, 5], [6]]"), 20);
  EXPECT_EQ(elements_of("[[], [6]]"), 0);
  EXPECT_EQ(elements_of("[]"), 0);
  EXPECT_EQ(elements_of("[4, 5]"), 0);
  EXPECT_EQ(elements_of("[[4, 0]]"), 0);
  EXPECT_EQ(elements_of("[[4, 1.5]]"), 0);
  EXPECT_EQ(elements_of("[[4, \"5\"]]"), 0);
  EXPECT_EQ(elements_of("[[4, [5]], 6]"), 0);
  EXPECT_EQ(elements_of("[[1000000000, 1000000000]]"), 0);
  EXPECT_EQ(elements_of("{\"a\": [4]}"), 0);
}

TEST(Kineto, IsBounded) {
  ExpectFault("{\"a\": " + std::string(1000, '['), "json.too-deep");
  // One value of more than 16 MiB, which might be endless.
  const std::string block(1 << 20, ' ');
  int blocks = 0;
  const auto endless = [&]() -> std::string_view {
    ++blocks;
    return block;
  };
  const auto step = ParseKineto(endless, "trace.json", std::nullopt);
  ASSERT_FALSE(step.has_value());
  EXPECT_EQ(step.error()[0].code, "file.not-json");
  EXPECT_EQ(blocks, 17);
}

}  // namespace
}  // namespace stepcast::formats
