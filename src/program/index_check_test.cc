#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/program/program.h"
#include "src/program/validator.h"
#include "tests/examples/test_program.h"

namespace stepcast::program {
namespace {

constexpr Bytes kSize = Bytes(64);

using Kind = ViolationKind;

std::vector<Kind> Kinds(const TestProgram& test) {
  std::vector<Kind> kinds;
  for (const Violation& violation : CheckIndices(test.program())) kinds.push_back(violation.kind);
  return kinds;
}

TEST(IndexCheckTest, EveryWrongIndexIsNamed) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step();
  test.Add(Opcode::kKernel, 0, 7);
  test.Add(Opcode::kRecordEvent, 0, 0);
  test.Allocate(3, x);
  test.Kernel(0, "beyond the end", {TestProgram::Write(x, 32, 65)});
  test.Kernel(0, "no such buffer", {{5, true, Bytes(0), Bytes(1)}});
  test.program().step[4].label = 9;
  const std::vector<Violation> violations = CheckIndices(test.program());
  std::vector<std::string> messages;
  for (const Violation& violation : violations) {
    EXPECT_EQ(violation.kind, Kind::kIndex);
    messages.push_back(violation.message);
  }
  EXPECT_EQ(messages, (std::vector<std::string>{
                          "step[0] (kernel) has no operand: 7",
                          "step[1] (record-event) has no operand: 0",
                          "step[2] (allocate) has no stream: 3",
                          "step[3] uses bytes [32, 65) of buffer 'x', which has 64",
                          "step[4] (kernel) has no label: 9",
                          "step[4] uses a buffer that does not exist: 5",
                      }));
}

TEST(IndexCheckTest, UsesBeyondTheTable) {
  TestProgram test(1);
  test.Step().Kernel(0, "kernel");
  test.program().step[0].use_count = 2;
  EXPECT_EQ(Kinds(test), std::vector<Kind>{Kind::kIndex});
}

TEST(IndexCheckTest, TablesAreChecked) {
  TestProgram test(1);
  test.program().communicators.push_back({"data", 4});
  test.program().collectives.push_back({CollectiveKind::kAllReduce, 2, kSize, DataType::kBf16});
  test.program().buffers.push_back({.size = Bytes(-1), .category = Category::kWorkspace});
  test.program().events.push_back({{.first = 7}});
  EXPECT_EQ(Kinds(test),
            (std::vector<Kind>{Kind::kIndex, Kind::kIndex, Kind::kIndex, Kind::kIndex}));
}

TEST(IndexCheckTest, AnExchangeHasPeersBytesAndUses) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  const Index pipeline = test.AddCommunicator("pipeline", {0, 1});
  test.AddExchange(pipeline, {test.Send(2, kSize)});
  test.AddExchange(pipeline, {test.Send(1, Bytes(-1))}, PeerNaming::kDistance);
  test.AddExchange(7, {test.Send(1, kSize)});
  test.AddExchange(pipeline, {});
  const Index other = test.AddCommunicator("other", {2, 3});
  test.AddExchange(other, {test.Send(1, kSize)});
  const Index both = test.AddExchange(pipeline, {test.Send(1, kSize), test.Receive(1, kSize)});
  test.Allocate(0, x).Step();
  test.Exchange(0, both, {test.Read(x)});
  test.Exchange(0, both, {test.Write(x), test.Write(x, 0, 32)});
  std::vector<std::string> messages;
  for (const Violation& violation : CheckIndices(test.program())) {
    EXPECT_EQ(violation.kind, Kind::kIndex);
    messages.push_back(violation.message);
  }
  EXPECT_EQ(
      messages,
      (std::vector<std::string>{
          "exchanges[0] has a peer outside its group of 2 ranks: 2",
          "exchanges[0] and exchanges[1] identify the peers of communicator 'pipeline' differently",
          "exchanges[1] has a message of negative size: -1 B",
          "exchanges[2] has no communicator: 7", "exchanges[3] has no messages",
          "exchanges[4] is on communicator 'other', but rank 0 is not a member",
          "step[0] (exchange) has 2 messages, but a different number of buffer uses: 1",
          "step[1] (exchange) sends 64 B with message 0, but the buffer use of the message writes "
          "64 B",
          "step[1] (exchange) receives 64 B with message 1, but the buffer use of the message "
          "writes 32 B"}));
}

}  // namespace
}  // namespace stepcast::program
