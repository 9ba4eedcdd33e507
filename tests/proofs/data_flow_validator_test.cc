#include "tests/proofs/data_flow_validator.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/examples/test_program.h"

namespace stepcast::program {
namespace {

// On two ranks, in FP32: a kernel makes gradients of 8 parameters and moves them, a reduce-scatter
// in place, an update of this rank's half, and an all-gather in place.
struct Sample {
  TestProgram test{1};
  Index parameters, gradients, copy, optimizer;

  Sample() {
    parameters = test.AddBuffer("parameters", Bytes(32), Category::kParameter);
    gradients = test.AddBuffer("gradients", Bytes(32), Category::kGradient);
    copy = test.AddBuffer("copy", Bytes(64), Category::kGradient);
    optimizer = test.AddBuffer("optimizer", Bytes(32), Category::kOptimizer);
    for (const Index buffer : {parameters, gradients, copy, optimizer}) test.Allocate(0, buffer);
    const Index communicator = test.AddCommunicator("data", {0, 1});
    const Index scatter = test.AddCollective(CollectiveKind::kReduceScatter, communicator,
                                             Bytes(32), DataType::kFp32);
    const Index gather =
        test.AddCollective(CollectiveKind::kAllGather, communicator, Bytes(32), DataType::kFp32);
    test.Step()
        .Kernel(0, "backward", {test.Read(parameters), test.Write(gradients), test.Write(copy)})
        .Communicate(0, scatter, {test.Write(gradients)})
        .Kernel(0, "update",
                {TestProgram::Write(parameters, 0, 16), TestProgram::Read(gradients, 0, 16),
                 test.Write(optimizer)})
        .Communicate(0, gather, {test.Write(parameters)})
        .Allocate(0, test.AddBuffer("later", Bytes(4)));
    DataFlow& flow = test.program().data_flow;
    const auto at = [](Index buffer) { return Elements{.buffer = buffer}; };
    flow.state = {{StateRole::kParameter, at(parameters), 0, 8},
                  {StateRole::kMoment, at(optimizer), 0, 4},
                  {StateRole::kMoment, {optimizer, Bytes(16)}, 0, 4}};
    flow.effects = {
        {.kind = EffectKind::kGradient,
         .target = at(gradients),
         .source = at(parameters),
         .elements = 8},
        // Blocks of three, four apart in the copy: elements 0 to 2, 4 to 6, 8 and 9.
        {.kind = EffectKind::kMove,
         .target = at(copy),
         .source = at(gradients),
         .elements = 8,
         .block = 3,
         .target_stride = 4,
         .source_stride = 3},
        {.kind = EffectKind::kCollective,
         .target = at(gradients),
         .source = at(gradients),
         .elements = 8},
        {.kind = EffectKind::kUpdate,
         .target = at(parameters),
         .source = at(gradients),
         .states = at(optimizer),
         .state_stride = 4,
         .elements = 4},
        {.kind = EffectKind::kCollective,
         .target = at(parameters),
         .source = at(parameters),
         .elements = 8},
    };
    flow.first = {0, 2, 3, 4, 5, 5};
  }
};

TEST(DataFlowValidator, FindsNothingInASoundProgram) {
  EXPECT_EQ(ValidateDataFlow(Sample().test.program()), std::vector<std::string>{});
  EXPECT_EQ(ValidateDataFlow(Program()), std::vector<std::string>{});
}

// A scaling: every element is read where it is written.
TEST(DataFlowValidator, TakesAMoveInPlace) {
  Sample sample;
  program::Effect& move = sample.test.program().data_flow.effects[1];
  move.target = move.source;
  move.block = 8;
  move.scale = 0.5;
  EXPECT_TRUE(ValidateDataFlow(sample.test.program()).empty());
  move.target.offset = Bytes(4);
  EXPECT_FALSE(ValidateDataFlow(sample.test.program()).empty());
}

// The first kernel writes the whole copy and reads the parameters.
TEST(DataFlowValidator, ChecksNormsAndClipping) {
  Sample sample;
  std::vector<Effect>& effects = sample.test.program().data_flow.effects;
  const Elements copy = effects[1].target, parameters = effects[0].source;
  effects[1] = {.kind = EffectKind::kSquares, .target = copy, .source = parameters, .elements = 8};
  EXPECT_TRUE(ValidateDataFlow(sample.test.program()).empty());
  effects[1].elements = 0;  // zero, which is something to write
  EXPECT_TRUE(ValidateDataFlow(sample.test.program()).empty());
  effects[1].target = parameters;  // only read
  EXPECT_EQ(ValidateDataFlow(sample.test.program()).size(), 1u);
  effects[1] = {.kind = EffectKind::kClip, .target = copy, .source = parameters, .elements = 8};
  EXPECT_TRUE(ValidateDataFlow(sample.test.program()).empty());
  effects[1].source.type = DataType::kBf16;  // a norm is FP32
  EXPECT_EQ(ValidateDataFlow(sample.test.program()).size(), 1u);
  effects[1] = {.kind = EffectKind::kClip, .target = parameters, .source = copy, .elements = 8};
  EXPECT_EQ(ValidateDataFlow(sample.test.program()).size(), 1u);
}

TEST(DataFlowValidator, ExtentsEndBehindTheLastElement) {
  const Effect move = Sample().test.program().data_flow.effects[1];
  EXPECT_EQ(TargetExtent(move), 10);
  EXPECT_EQ(SourceExtent(move), 8);
  const Effect contiguous{.elements = 5, .block = 5};
  EXPECT_EQ(TargetExtent(contiguous), 5);
}

TEST(DataFlowValidator, StateArraysAreMasterAndMoments) {
  Effect update;
  EXPECT_EQ(StateArrays(true, update), 2);
  update.target.type = DataType::kBf16;  // beside FP32 arrays
  EXPECT_EQ(StateArrays(true, update), 3);
  EXPECT_EQ(StateArrays(false, update), 2);
  update.states.type = DataType::kBf16;
  EXPECT_EQ(StateArrays(true, update), 2);
  EXPECT_EQ(StateArrays(false, update), 1);
}

struct Fault {
  const char* name;
  std::function<void(DataFlow&)> make;
  const char* sentence;  // a part of it
};

TEST(DataFlowValidator, NamesEveryFault) {
  const std::vector<Fault> faults = {
      {"an instruction without its entry", [](DataFlow& f) { f.first.pop_back(); },
       "do not match the table"},
      {"effects that no instruction has", [](DataFlow& f) { f.first.back() = 4; },
       "do not match the table"},
      {"nothing to do", [](DataFlow& f) { f.effects[0].elements = 0; }, "is empty"},
      {"beyond the buffer", [](DataFlow& f) { f.effects[0].target.offset = Bytes(4); },
       "writes 8 elements outside"},
      {"no such buffer", [](DataFlow& f) { f.effects[0].source.buffer = 99; },
       "reads 8 elements outside"},
      {"a buffer that the kernel does not name",
       [](DataFlow& f) { f.effects[0].source.buffer = 3; },
       "reads bytes [0, 32) of buffer 'optimizer', which the instruction does not declare"},
      {"a write of what is only read", [](DataFlow& f) { f.effects[0].target.buffer = 0; },
       "writes bytes [0, 32) of buffer 'parameters', which"},
      {"more than is declared", [](DataFlow& f) { f.effects[3].elements = 5; },
       "writes bytes [0, 20) of buffer 'parameters'"},
      {"blocks that overlap", [](DataFlow& f) { f.effects[1].target_stride = 2; },
       "blocks that overlap"},
      {"blocks that reach too far", [](DataFlow& f) { f.effects[1].target_stride = 8; },
       "writes 18 elements outside"},
      {"a move onto itself",
       [](DataFlow& f) {
         f.effects[1].target.buffer = 1;
         f.effects[1].target_stride = 3;
       },
       "writes where it reads"},
      {"a collective of other size", [](DataFlow& f) { f.effects[2].elements = 6; },
       "does not have the collective's 32 bytes"},
      {"neither in place nor apart", [](DataFlow& f) { f.effects[2].target.offset = Bytes(4); },
       "neither in place"},
      {"states shorter than what is updated", [](DataFlow& f) { f.effects[3].state_stride = 3; },
       "not consecutive arrays"},
      {"states of a third type", [](DataFlow& f) { f.effects[3].states.type = DataType::kFp16; },
       "in FP32 or in the target's type"},
      {"a collective without an effect", [](DataFlow& f) { f.first = {0, 3, 3, 4, 5, 5}; },
       "has 0 effects of a collective"},
      {"an effect of no operation", [](DataFlow& f) { f.first = {0, 2, 3, 4, 4, 5}; },
       "is not a kernel, copy or collective"},
      {"an update by a collective", [](DataFlow& f) { f.first = {0, 2, 4, 4, 5, 5}; },
       "belongs to no kernel"},
      {"state outside", [](DataFlow& f) { f.state[0].elements = 9; }, "outside of buffers"},
      {"state in passing",
       [](DataFlow& f) {
         f.state[0] = {StateRole::kParameter, {4}, 0, 1};
       },
       "not allocated before the first step"},
      {"state twice",
       [](DataFlow& f) {
         f.state[2].place.offset = Bytes(12);
         f.state[2].elements = 4;
       },
       "overlap in buffer 'optimizer'"},
  };
  for (const Fault& fault : faults) {
    Sample sample;
    fault.make(sample.test.program().data_flow);
    const auto sentences = ValidateDataFlow(sample.test.program());
    std::string all;
    for (const std::string& sentence : sentences) all += sentence + "\n";
    EXPECT_NE(all.find(fault.sentence), std::string::npos) << fault.name << ":\n" << all;
  }
}

}  // namespace
}  // namespace stepcast::program
