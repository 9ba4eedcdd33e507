#include "gtest/gtest.h"
#include "src/program/description.h"
#include "tests/examples/test_program.h"

namespace stepcast::program {
namespace {

TEST(DumpTest, AnEmptyProgramIsEmpty) { EXPECT_EQ(Dump(Program()), ""); }

// A step of one layer: gather, compute, reduce the gradient; with every kind of instruction.
TEST(DumpTest, ASmallProgram) {
  TestProgram test(2);
  const Index shard = test.AddBuffer("shard", KiB(1), Category::kParameter);
  const Index full = test.AddBuffer("full", KiB(4), Category::kCommunication);
  test.program().buffers[shard].padding = Bytes(24);
  const Index gathered = test.AddEvent("gathered");
  const Index used = test.AddEvent("used");
  const Index data = test.AddCommunicator("data", {0, 8, 16, 24});
  const Index gather = test.AddCollective(CollectiveKind::kAllGather, data, KiB(4));
  const Index scatter =
      test.AddCollective(CollectiveKind::kReduceScatter, data, KiB(4), DataType::kFp32);
  const Index gemm = test.AddKernel("up_proj");
  Kernel& shape = test.program().kernels[gemm];
  shape.kind = KernelKind::kGemm;
  shape.m = 16;
  shape.n = 32;
  shape.k = 8;
  shape.flops = 8192;
  shape.read = Bytes(768);
  shape.written = KiB(1);

  test.Allocate(0, shard).Copy(1, CopyDirection::kHostToDevice, KiB(1), {test.Write(shard)});
  test.Record(0, used).Step().Label("layers.0");
  test.HostTask("load batch", Microseconds(3)).Allocate(1, full).Wait(1, used);
  test.Communicate(1, gather, {test.Read(shard), test.Write(full)}).Record(1, gathered);
  test.Wait(0, gathered).Run(0, gemm, {TestProgram::Read(full, 0, 2048)}).Record(0, used);
  test.program().step.back().phase = Phase::kOptimizer;
  test.program().step.back().micro_batch = 1;
  test.Communicate(1, scatter, {TestProgram::Write(full, 1024, 4096)});
  test.RecordStream(0, full).HostWait(used).Release(full);

  EXPECT_EQ(Dump(test.program()),
            R"(streams
  0  compute
  1  side1
groups
  0  data  4 ranks: 0-24 by 8
communicators
  0  data  group data
events
  0  gathered
  1  used
buffers
  0  shard  1 KiB  parameters     24 B of them padding
  1  full   4 KiB  communication
kernels
  0  up_proj  gemm  bf16  16x32x8, 8192 flops, reads 768 B, writes 1 KiB
collectives
  0  all_gather      on data  4 KiB  bf16
  1  reduce_scatter  on data  4 KiB  fp32
copies
  0  host-to-device  1 KiB
host tasks
  0  load batch  3 us
prologue
  0  forward  mb0  -  compute  allocate      shard           1 KiB
  1  forward  mb0  -  side1    copy          host-to-device  1 KiB  w shard
  2  forward  mb0  -  compute  record-event  used
step
   0  forward    mb0  layers.0  host     host-task        load batch
   1  forward    mb0  layers.0  side1    allocate         full                     4 KiB
   2  forward    mb0  layers.0  side1    wait-event       used                            after step[7] of the step before, at first prologue[2]
   3  forward    mb0  layers.0  side1    collective       all_gather on data       4 KiB  r shard, w full
   4  forward    mb0  layers.0  side1    record-event     gathered
   5  forward    mb0  layers.0  compute  wait-event       gathered                        after step[4]
   6  forward    mb0  layers.0  compute  kernel           up_proj                 1792 B  r full[0, 2048)
   7  optimizer  mb1  layers.0  compute  record-event     used
   8  forward    mb0  layers.0  side1    collective       reduce_scatter on data   4 KiB  w full[1024, 4096)
   9  forward    mb0  layers.0  compute  record-stream    full
  10  forward    mb0  layers.0  host     host-wait-event  used                            after step[7]
  11  forward    mb0  layers.0  host     release          full                     4 KiB
)");
}

TEST(DumpTest, ExchangesNameTheirPeers) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", KiB(2));
  const Index pipeline = test.AddCommunicator("pipeline", {0, 1});
  const Index ring = test.AddCommunicator("ring", {0, 1});
  const Index send = test.AddExchange(pipeline, {test.Send(1, KiB(2))});
  const Index shift = test.AddExchange(ring, {test.Send(1, KiB(1)), test.Receive(-1, KiB(1))},
                                       PeerNaming::kDistance);
  test.Step().Exchange(0, send, {test.Read(x)});
  test.Exchange(0, shift, {test.Read(x, 0, 1024), test.Write(x, 1024, 2048)});
  EXPECT_EQ(Dump(test.program()),
            R"(streams
  0  compute
groups
  0  pipeline  2 ranks: 0, 1
  1  ring      2 ranks: 0, 1
communicators
  0  pipeline  group pipeline
  1  ring      group ring
buffers
  0  x  2 KiB  activations
exchanges
  0  on pipeline  bf16  send to position 1: 2 KiB
  1  on ring      bf16  send to distance +1: 1 KiB, receive from distance -1: 1 KiB
step
  0  forward  mb0  -  compute  exchange  send 0 on pipeline  2 KiB  r x
  1  forward  mb0  -  compute  exchange  exchange 1 on ring  1 KiB  r x[0, 1024), w x[1024, 2048)
)");
}

TEST(DumpTest, RankListsThatAreNotEven) {
  TestProgram test(1);
  test.AddCommunicator("pair", {0, 5});
  test.AddCommunicator("odd", {0, 1, 4});
  test.AddCommunicator("all", {0, 1, 2, 3});
  EXPECT_EQ(Dump(test.program()),
            R"(streams
  0  compute
groups
  0  pair  2 ranks: 0, 5
  1  odd   3 ranks: 0, 1, 4
  2  all   4 ranks: 0-3
communicators
  0  pair  group pair
  1  odd   group odd
  2  all   group all
)");
}

}  // namespace
}  // namespace stepcast::program
