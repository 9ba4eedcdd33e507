#include "src/simulate/simulate.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/collective/ring.h"
#include "src/network/analytic.h"
#include "src/network/traffic.h"
#include "tests/examples/test_program.h"

namespace stepcast::simulate {
namespace {

using program::CopyDirection;
using program::Index;
using program::OperationRecord;
using program::TestProgram;
using program::Timeline;
using program::WaitRecord;

// A program with its prices. Times are in nanoseconds.
class Rank {
 public:
  Rank(int representative, int streams) : representative_(representative), test_(streams) {}

  TestProgram* operator->() { return &test_; }

  // A kernel with `latency`, then `work`, that uses `compute` of the SMs.
  Index Kernel(const std::string& name, int work, double compute = 0, int latency = 0) {
    prices_.kernels.push_back(Demand(work, compute, latency));
    return test_.AddKernel(name);
  }
  Index Collective(CollectiveKind kind, Index communicator, int work, double compute = 0,
                   int latency = 0, Bytes bytes = KiB(1)) {
    cost::CollectivePrice price;
    price.demand = Demand(work, compute, latency);
    prices_.collectives.push_back(price);
    return test_.AddCollective(kind, communicator, bytes);
  }
  void Copy(int stream, int work) {
    prices_.copies.push_back(Demand(work, 0, 0));
    test_.Copy(stream, CopyDirection::kDeviceToHost, KiB(1));
  }
  cost::Prices& prices() { return prices_; }

  RankClass Class() const { return {&test_.program(), &prices_, representative_}; }

 private:
  static cost::Demand Demand(int work, double compute, int latency) {
    cost::Demand demand;
    demand.work = Nanoseconds(work);
    demand.latency = Nanoseconds(latency);
    demand.share[static_cast<std::size_t>(cost::Resource::kCompute)] = compute;
    return demand;
  }

  int representative_;
  TestProgram test_;
  cost::Prices prices_;
};

Timeline RunOne(const Rank& rank, const Options& options = {}) {
  const RankClass one = rank.Class();
  auto timelines = Simulate({&one, 1}, options);
  EXPECT_TRUE(timelines.has_value());
  return timelines.has_value() ? std::move(timelines->front()) : Timeline();
}

std::vector<std::string> Blocked(const std::vector<RankClass>& classes) {
  const auto timelines = Simulate(classes, {});
  EXPECT_FALSE(timelines.has_value());
  return timelines.has_value() ? std::vector<std::string>() : timelines.error().blocked;
}

struct Span {
  int start;
  int end;
  friend bool operator==(const Span&, const Span&) = default;
};
std::ostream& operator<<(std::ostream& out, const Span& span) {
  return out << "[" << span.start << ", " << span.end << "]";
}

int InNanoseconds(Time time) {
  EXPECT_EQ(time.picoseconds() % 1000, 0);
  return static_cast<int>(time.picoseconds() / 1000);
}

// When an instruction ran.
Span When(const Timeline& timeline, Index instruction, std::uint32_t step = 0) {
  for (const OperationRecord& record : timeline.operations) {
    if (record.instruction == instruction && record.step == step) {
      return {InNanoseconds(record.start), InNanoseconds(record.end)};
    }
  }
  ADD_FAILURE() << "no record of step[" << instruction << "]";
  return {-1, -1};
}

std::vector<int> StepEnds(const Timeline& timeline) {
  std::vector<int> ends;
  for (const Time end : timeline.step_ends) ends.push_back(InNanoseconds(end));
  return ends;
}

TEST(SimulateTest, AStreamRunsOneOperationAfterTheOther) {
  Rank rank(0, 1);
  const Index first = rank.Kernel("first", 10);
  const Index second = rank.Kernel("second", 5, 0, 2);  // 2 of latency, 5 of work
  rank->Step().Run(0, first).Run(0, second);
  const Timeline timeline = RunOne(rank);
  EXPECT_EQ(When(timeline, 0), (Span{0, 10}));
  EXPECT_EQ(When(timeline, 1), (Span{10, 17}));
  EXPECT_EQ(StepEnds(timeline), (std::vector<int>{17}));
}

TEST(SimulateTest, TheHostSpendsTimeOnEachIssue) {
  Rank rank(0, 1);
  rank.prices().issue_kernel = Nanoseconds(4);
  rank.prices().issue_copy = Nanoseconds(3);
  const Index kernel = rank.Kernel("k", 1);
  rank->Step().Run(0, kernel).HostTask("work", Nanoseconds(5));
  rank.Copy(0, 20);
  rank->Run(0, kernel);
  // Issued at 4; the host task from 4 to 9; the copy issued at 12, the last kernel at 16.
  const Timeline timeline = RunOne(rank);
  EXPECT_EQ(When(timeline, 0), (Span{4, 5}));
  EXPECT_EQ(When(timeline, 1), (Span{4, 9}));
  EXPECT_EQ(When(timeline, 2), (Span{12, 32}));
  EXPECT_EQ(When(timeline, 3), (Span{32, 33}));
  const OperationRecord& last = timeline.operations.back();
  EXPECT_EQ(last.issued, Nanoseconds(16));
  EXPECT_EQ(last.ready, Nanoseconds(32));
}

// A launch takes 4. Before it, a module's code takes 10 and autograd 3; the framework's own takes
// none.
TEST(SimulateTest, TheHostDispatchesBeforeItLaunches) {
  Rank rank(0, 1);
  rank.prices().issue_kernel = Nanoseconds(4);
  rank.prices().dispatch = {.module = Nanoseconds(10), .autograd = Nanoseconds(3)};
  const Index own = rank.Kernel("own", 1);
  const Index module = rank.Kernel("module", 1);
  const Index autograd = rank.Kernel("autograd", 1);
  rank->program().kernels[module].issuer = Issuer::kModule;
  rank->program().kernels[autograd].issuer = Issuer::kAutograd;
  rank->Step().Run(0, own).Run(0, module).Run(0, autograd);
  const Timeline timeline = RunOne(rank);
  EXPECT_EQ(When(timeline, 0), (Span{4, 5}));
  EXPECT_EQ(When(timeline, 1), (Span{18, 19}));
  EXPECT_EQ(When(timeline, 2), (Span{25, 26}));
}

TEST(SimulateTest, RecordsAreInTheOrderOfTheirEnds) {
  Rank rank(0, 2);
  const Index longer = rank.Kernel("longer", 10);
  const Index shorter = rank.Kernel("shorter", 5);
  rank->Step().Run(0, longer).Run(1, shorter).Run(1, shorter).HostTask("t", Nanoseconds(7));
  const Timeline timeline = RunOne(rank);
  std::vector<Index> order;
  for (const OperationRecord& record : timeline.operations) order.push_back(record.instruction);
  // Ends: 5, 7, then 10 twice, in issue order.
  EXPECT_EQ(order, (std::vector<Index>{1, 3, 0, 2}));
}

TEST(SimulateTest, AnEventHoldsAStreamBack) {
  Rank rank(0, 2);
  const Index event = rank->AddEvent("event");
  const Index a = rank.Kernel("a", 10);
  const Index b = rank.Kernel("b", 3);
  rank->Step().Run(0, a).Record(0, event).Run(0, a);
  rank->Run(1, b).Wait(1, event).Run(1, b);
  const Timeline timeline = RunOne(rank);
  EXPECT_EQ(When(timeline, 3), (Span{0, 3}));
  EXPECT_EQ(When(timeline, 5), (Span{10, 13}));
  ASSERT_EQ(timeline.waits.size(), 1u);
  EXPECT_EQ(timeline.waits[0].instruction, 4u);
  EXPECT_EQ(timeline.waits[0].start, Nanoseconds(3));
  EXPECT_EQ(timeline.waits[0].end, Nanoseconds(10));
}

TEST(SimulateTest, AWaitForTheStepBeforeLetsTheFirstStepPass) {
  Rank rank(0, 2);
  const Index event = rank->AddEvent("event");
  const Index a = rank.Kernel("a", 10);
  const Index b = rank.Kernel("b", 4);
  rank->Step().Wait(0, event).Run(0, a).Run(1, b).Run(1, b).Run(1, b).Record(1, event);
  // Step 0: a in [0, 10], the b's in [0, 12]; step 1: a after 12, the b's in [12, 24]; ...
  const Timeline timeline = RunOne(rank, {.steps = 3});
  EXPECT_EQ(When(timeline, 1, 0), (Span{0, 10}));
  EXPECT_EQ(When(timeline, 1, 1), (Span{12, 22}));
  EXPECT_EQ(When(timeline, 1, 2), (Span{24, 34}));
  EXPECT_EQ(StepEnds(timeline), (std::vector<int>{12, 24, 36}));
}

TEST(SimulateTest, TheFirstStepMayWaitForThePrologue) {
  Rank rank(0, 2);
  const Index event = rank->AddEvent("event");
  const Index a = rank.Kernel("a", 10);
  const Index b = rank.Kernel("b", 4);
  rank->Run(1, b).Record(1, event).Step().Wait(0, event).Run(0, a).Record(0, event);
  const Timeline timeline = RunOne(rank, {.steps = 2});
  EXPECT_EQ(When(timeline, 1, 0), (Span{4, 14}));
  EXPECT_EQ(When(timeline, 1, 1), (Span{14, 24}));
}

TEST(SimulateTest, StepsFollowEachOtherWithoutAPause) {
  Rank rank(0, 2);
  const Index a = rank.Kernel("a", 10);
  const Index b = rank.Kernel("b", 3);
  rank->Step().Run(0, a).Run(1, b);
  const Timeline timeline = RunOne(rank, {.steps = 2});
  EXPECT_EQ(When(timeline, 1, 1), (Span{3, 6}));
  EXPECT_EQ(StepEnds(timeline), (std::vector<int>{10, 20}));
}

TEST(SimulateTest, ABarrierHoldsTheNextStepBack) {
  Rank rank(0, 2);
  rank.prices().issue_kernel = Nanoseconds(1);
  const Index a = rank.Kernel("a", 10);
  const Index b = rank.Kernel("b", 3);
  rank->Step().Run(0, a).Run(1, b);
  // a in [1, 11]; the next step's issues begin at 11.
  const Timeline timeline = RunOne(rank, {.steps = 2, .barrier = true});
  EXPECT_EQ(When(timeline, 0, 1), (Span{12, 22}));
  EXPECT_EQ(When(timeline, 1, 1), (Span{13, 16}));
  EXPECT_EQ(StepEnds(timeline), (std::vector<int>{11, 22}));
}

TEST(SimulateTest, ABarrierWaitsForTheSlowestClass) {
  Rank fast(0, 1);
  Rank slow(1, 1);
  const Index quick = fast.Kernel("quick", 2);
  fast->Step().Run(0, quick);
  const Index long_one = slow.Kernel("long", 9);
  slow->Step().Run(0, long_one);
  const std::vector<RankClass> classes = {fast.Class(), slow.Class()};
  const auto timelines = Simulate(classes, {.steps = 2, .barrier = true});
  ASSERT_TRUE(timelines.has_value());
  EXPECT_EQ(When((*timelines)[0], 0, 1), (Span{9, 11}));
  EXPECT_EQ(StepEnds((*timelines)[0]), (std::vector<int>{2, 11}));
  EXPECT_EQ(StepEnds((*timelines)[1]), (std::vector<int>{9, 18}));
}

TEST(SimulateTest, TheHostWaitsForTheDevice) {
  Rank rank(0, 1);
  rank.prices().issue_kernel = Nanoseconds(2);
  const Index event = rank->AddEvent("event");
  const Index a = rank.Kernel("a", 10);
  rank->Step().Run(0, a).Record(0, event).HostTask("t", Nanoseconds(1)).HostWait(event);
  rank->HostTask("after", Nanoseconds(3)).Run(0, a);
  // a is issued at 2 and ends at 12; the host waits from 3 to 12, works until 15, and issues at 17.
  const Timeline timeline = RunOne(rank, {.steps = 2});
  EXPECT_EQ(When(timeline, 4), (Span{12, 15}));
  EXPECT_EQ(When(timeline, 5), (Span{17, 27}));
  ASSERT_EQ(timeline.waits.size(), 2u);
  EXPECT_EQ(timeline.waits[0].instruction, 3u);
  EXPECT_EQ(timeline.waits[0].start, Nanoseconds(3));
  EXPECT_EQ(timeline.waits[0].end, Nanoseconds(12));
  // The next step is issued from 17 on, its kernel at 19, which runs from 27 to 37.
  EXPECT_EQ(When(timeline, 0, 1), (Span{27, 37}));
}

// A launch takes 1, a kernel 10. The first 1,024 launches enter the queue at once. The next block
// of 128 waits until the first block has left it. Kernel 127 starts after launch 0 and 127 kernels,
// and ends at 1 + 128 x 10.
TEST(SimulateTest, ALaunchQueueHoldsTheHostBack) {
  Rank rank(0, 1);
  const Index kernel = rank.Kernel("kernel", 10);
  rank.prices().issue_kernel = Nanoseconds(1);
  rank->Step();
  for (int k = 0; k < 1300; ++k) rank->Run(0, kernel);
  const Timeline timeline = RunOne(rank, {.steps = 2});
  std::vector<Time> issued(2600);
  for (const program::OperationRecord& record : timeline.operations) {
    issued[record.step * 1300 + record.instruction] = record.issued;
  }
  EXPECT_EQ(issued[1023], Nanoseconds(1024));
  EXPECT_EQ(issued[1024], Nanoseconds(1 + 1280 + 1));
  EXPECT_EQ(issued[1024 + 127], Nanoseconds(1281 + 128));
  // Kernel 255 has ended at 2,561.
  EXPECT_EQ(issued[1024 + 128], Nanoseconds(2561 + 1));
  // The last block, of 20, and the second step's first one wait for the third block: kernel 383.
  EXPECT_EQ(issued[1280], Nanoseconds(3841 + 1));
  EXPECT_EQ(issued[1300], Nanoseconds(3841 + 21));
  EXPECT_EQ(timeline.step_ends[1], Nanoseconds(1 + 2600 * 10));
}

TEST(SimulateTest, AHostWaitForWhatIsOverTakesNoTime) {
  Rank rank(0, 1);
  const Index event = rank->AddEvent("event");
  const Index a = rank.Kernel("a", 2);
  rank->Step().Run(0, a).Record(0, event).HostTask("t", Nanoseconds(9)).HostWait(event);
  rank->HostTask("after", Nanoseconds(1));
  const Timeline timeline = RunOne(rank);
  EXPECT_EQ(When(timeline, 4), (Span{9, 10}));
  EXPECT_TRUE(timeline.waits.empty());
}

TEST(SimulateTest, MemoryChangesInHostTime) {
  Rank rank(0, 1);
  rank.prices().issue_kernel = Nanoseconds(2);
  const Index buffer = rank->AddBuffer("x", KiB(1));
  const Index a = rank.Kernel("a", 10);
  rank->Step().Allocate(0, buffer).Run(0, a).Release(buffer);
  const Timeline timeline = RunOne(rank, {.steps = 2});
  ASSERT_EQ(timeline.memory.size(), 4u);
  EXPECT_EQ(timeline.memory[0].time, Nanoseconds(0));
  EXPECT_EQ(timeline.memory[1].instruction, 2u);
  EXPECT_EQ(timeline.memory[1].time, Nanoseconds(2));  // the kernel has not even started
  EXPECT_EQ(timeline.memory[2].step, 1u);
  EXPECT_EQ(timeline.memory[3].time, Nanoseconds(4));
}

TEST(SimulateTest, ACommunicatorRunsOneCollectiveAtATimeInHostOrder) {
  Rank rank(0, 2);
  const Index data = rank->AddCommunicator("data", {0, 1});
  const Index k = rank.Kernel("k", 10);
  const Index reduce = rank.Collective(CollectiveKind::kAllReduce, data, 4);
  const Index gather = rank.Collective(CollectiveKind::kAllGather, data, 6);
  rank->Step().Run(0, k).Communicate(0, reduce).Communicate(1, gather);
  // The gather could start at 0, but the earlier reduction must wait for the kernel.
  const Timeline timeline = RunOne(rank);
  EXPECT_EQ(When(timeline, 1), (Span{10, 14}));
  EXPECT_EQ(When(timeline, 2), (Span{14, 20}));
  EXPECT_EQ(timeline.operations.back().ready, Time());
}

TEST(SimulateTest, TwoCommunicatorsRunSideBySide) {
  Rank rank(0, 2);
  const Index data = rank->AddCommunicator("data", {0, 1});
  const Index tensor = rank->AddCommunicator("tensor", {0, 2});
  const Index reduce = rank.Collective(CollectiveKind::kAllReduce, data, 4);
  const Index gather = rank.Collective(CollectiveKind::kAllGather, tensor, 6);
  rank->Step().Communicate(0, reduce).Communicate(1, gather);
  const Timeline timeline = RunOne(rank);
  EXPECT_EQ(When(timeline, 0), (Span{0, 4}));
  EXPECT_EQ(When(timeline, 1), (Span{0, 6}));
}

TEST(SimulateTest, OperationsShareResources) {
  Rank rank(0, 2);
  const Index a = rank.Kernel("a", 10, 1.0);
  const Index b = rank.Kernel("b", 10, 1.0, 4);
  rank->Step().Run(0, a).Run(1, b);
  // b's latency uses no resources: a runs alone until 4, then each at half rate. a has 6 left and
  // ends at 16; b has done 6 then, and ends at 20.
  const Timeline timeline = RunOne(rank);
  EXPECT_EQ(When(timeline, 0), (Span{0, 16}));
  EXPECT_EQ(When(timeline, 1), (Span{0, 20}));
}

TEST(SimulateTest, ACostlessStepTakesNoTime) {
  Rank rank(0, 2);
  const Index event = rank->AddEvent("event");
  const Index data = rank->AddCommunicator("data", {0, 1});
  const Index k = rank.Kernel("k", 0);
  const Index reduce = rank.Collective(CollectiveKind::kAllReduce, data, 0);
  rank->Step().Run(0, k).Record(0, event).Wait(1, event).Communicate(1, reduce);
  rank->Communicate(0, reduce);
  const Timeline timeline = RunOne(rank, {.steps = 3});
  EXPECT_EQ(timeline.operations.size(), 9u);
  EXPECT_EQ(StepEnds(timeline), (std::vector<int>{0, 0, 0}));
}

TEST(SimulateTest, AnEmptyProgramEndsAtOnce) {
  const Rank rank(0, 1);
  EXPECT_EQ(StepEnds(RunOne(rank, {.steps = 2})), (std::vector<int>{0, 0}));
  EXPECT_EQ(StepEnds(RunOne(rank, {.steps = 2, .barrier = true})), (std::vector<int>{0, 0}));
}

TEST(SimulateTest, RecordsMayBeLeftOut) {
  Rank rank(0, 1);
  const Index a = rank.Kernel("a", 10);
  rank->Step().Run(0, a).HostTask("t", Nanoseconds(1));
  const Timeline all = RunOne(rank, {.steps = 3});
  EXPECT_EQ(all.operations.size(), 6u);
  const Timeline none = RunOne(rank, {.steps = 3, .recording = Recording::kNone});
  EXPECT_TRUE(none.operations.empty());
  EXPECT_EQ(StepEnds(none), StepEnds(all));
}

// Two classes.

TEST(SimulateTest, ACollectiveWaitsForTheLaterMember) {
  Rank early(0, 1);
  Rank late(4, 1);
  for (Rank* rank : {&early, &late}) {
    const Index data = (*rank)->AddCommunicator("data", {0, 4});
    const Index k = rank->Kernel("k", rank == &early ? 3 : 8);
    const Index reduce = rank->Collective(CollectiveKind::kAllReduce, data, 5);
    (*rank)->Step().Run(0, k).Communicate(0, reduce);
  }
  const std::vector<RankClass> classes = {early.Class(), late.Class()};
  const auto timelines = Simulate(classes, {});
  ASSERT_TRUE(timelines.has_value());
  EXPECT_EQ(When((*timelines)[0], 1), (Span{8, 13}));
  EXPECT_EQ(When((*timelines)[1], 1), (Span{8, 13}));
  EXPECT_EQ((*timelines)[0].operations[1].ready, Nanoseconds(3));
}

TEST(SimulateTest, TheSlowestMemberSetsThePace) {
  // Rank 4 runs a kernel concurrently with the collective; both need all its SMs and run at half
  // rate. Rank 0's part of the collective slows with them. It leaves half of rank 0's SMs, which is
  // all that rank 0's kernel needs.
  Rank quiet(0, 2);
  Rank busy(4, 2);
  for (Rank* rank : {&quiet, &busy}) {
    const Index data = (*rank)->AddCommunicator("data", {0, 4});
    const Index k = rank->Kernel("k", 100, rank == &quiet ? 0.5 : 1.0);
    const Index reduce = rank->Collective(CollectiveKind::kAllReduce, data, 20, 1.0);
    (*rank)->Step().Communicate(1, reduce).Run(0, k);
  }
  const std::vector<RankClass> classes = {quiet.Class(), busy.Class()};
  const auto timelines = Simulate(classes, {});
  ASSERT_TRUE(timelines.has_value());
  EXPECT_EQ(When((*timelines)[0], 0), (Span{0, 40}));
  EXPECT_EQ(When((*timelines)[1], 0), (Span{0, 40}));
  EXPECT_EQ(When((*timelines)[0], 1), (Span{0, 100}));
  EXPECT_EQ(When((*timelines)[1], 1), (Span{0, 120}));  // 40 at half rate, 80 alone
}

TEST(SimulateTest, MembersPricesMayDiffer) {
  // The longest latency, 3, and the longest work, 10. Rank 0 would need 5 with all its SMs. At the
  // common rate it needs half of them, so its kernel (half) runs at full rate.
  Rank light(0, 2);
  Rank heavy(1, 2);
  const Index data0 = light->AddCommunicator("data", {0, 1});
  const Index data1 = heavy->AddCommunicator("data", {0, 1});
  const Index k = light.Kernel("k", 20, 0.5);
  light->Step().Run(0, k);
  light->Communicate(1, light.Collective(CollectiveKind::kAllReduce, data0, 5, 1.0, 3));
  heavy->Step().Communicate(1, heavy.Collective(CollectiveKind::kAllReduce, data1, 10, 0.2, 1));
  const std::vector<RankClass> classes = {light.Class(), heavy.Class()};
  const auto timelines = Simulate(classes, {});
  ASSERT_TRUE(timelines.has_value());
  EXPECT_EQ(When((*timelines)[0], 1), (Span{0, 13}));
  EXPECT_EQ(When((*timelines)[0], 0), (Span{0, 20}));
}

TEST(SimulateTest, GroupsOfTheSameNameButOtherRanksDoNotMeet) {
  Rank one(0, 1);
  Rank other(2, 1);
  const Index mine = one->AddCommunicator("tensor", {0, 1});
  const Index theirs = other->AddCommunicator("tensor", {2, 3});
  one->Step().Communicate(0, one.Collective(CollectiveKind::kAllReduce, mine, 5));
  other->Step().Run(0, other.Kernel("k", 7));
  other->Communicate(0, other.Collective(CollectiveKind::kAllReduce, theirs, 5));
  const std::vector<RankClass> classes = {one.Class(), other.Class()};
  const auto timelines = Simulate(classes, {});
  ASSERT_TRUE(timelines.has_value());
  EXPECT_EQ(When((*timelines)[0], 0), (Span{0, 5}));
  EXPECT_EQ(When((*timelines)[1], 1), (Span{7, 12}));
}

// Deadlocks.

TEST(SimulateTest, CrossedOrderOfTwoCommunicatorsIsADeadlock) {
  Rank a(0, 1);
  Rank b(4, 1);
  for (Rank* rank : {&a, &b}) {
    const Index data = (*rank)->AddCommunicator("data", {0, 4});
    const Index tensor = (*rank)->AddCommunicator("tensor", {0, 4});
    const Index reduce = rank->Collective(CollectiveKind::kAllReduce, data, 5);
    const Index gather = rank->Collective(CollectiveKind::kAllGather, tensor, 5);
    (*rank)->Step().Label("layer 3");
    if (rank == &a) {
      (*rank)->Communicate(0, reduce).Communicate(0, gather);
    } else {
      (*rank)->Communicate(0, gather).Communicate(0, reduce);
    }
  }
  EXPECT_EQ(Blocked({a.Class(), b.Class()}),
            (std::vector<std::string>{
                "rank 0, step 0: all_reduce on communicator 'data' of 'layer 3' on stream "
                "'compute' waits for rank 4, which has not reached the collective",
                "rank 4, step 0: all_gather on communicator 'tensor' of 'layer 3' on stream "
                "'compute' waits for rank 0, which has not reached the collective"}));
}

TEST(SimulateTest, MembersThatDisagreeAreNamedWithBothSides) {
  Rank a(0, 1);
  Rank b(4, 1);
  const Index data0 = a->AddCommunicator("data", {0, 4});
  const Index data1 = b->AddCommunicator("data", {0, 4});
  a->Step().Communicate(0, a.Collective(CollectiveKind::kAllReduce, data0, 5, 0, 0, Bytes(64)));
  b->Step().Communicate(0, b.Collective(CollectiveKind::kAllReduce, data1, 5, 0, 0, Bytes(128)));
  EXPECT_EQ(Blocked({a.Class(), b.Class()}),
            (std::vector<std::string>{
                "rank 0, step 0: all_reduce on communicator 'data' on stream 'compute' is "
                "all_reduce of 64 B bf16, but rank 4 has reached a different collective, "
                "all_reduce of 128 B bf16",
                "rank 4, step 0: all_reduce on communicator 'data' on stream 'compute' is "
                "all_reduce of 128 B bf16, but rank 0 has reached a different collective, "
                "all_reduce of 64 B bf16"}));
}

TEST(SimulateTest, EverythingThatHangsOnTheDeadlockIsNamed) {
  Rank a(0, 3);
  Rank b(4, 1);
  const Index data = a->AddCommunicator("data", {0, 4});
  b->AddCommunicator("data", {0, 4});
  const Index event = a->AddEvent("reduced");
  const Index reduce = a.Collective(CollectiveKind::kAllReduce, data, 5);
  const Index k = a.Kernel("k", 1);
  a->Step().Communicate(0, reduce).Record(0, event).Communicate(1, reduce);
  a->Wait(2, event).HostWait(event).Run(2, k).Run(0, k);
  EXPECT_EQ(Blocked({a.Class(), b.Class()}),
            (std::vector<std::string>{
                "rank 0, step 0: the host waits at host-wait-event 'reduced' until record-event "
                "'reduced' on stream 'compute' of step 0 is reached",
                "rank 0, step 0: all_reduce on communicator 'data' on stream 'compute' waits for "
                "rank 4, which has not reached the collective",
                "rank 0, step 0: all_reduce on communicator 'data' on stream 'side1' waits for "
                "the communicator: collective 1 cannot start before collective 0 ends",
                "rank 0, step 0: wait-event 'reduced' on stream 'side2' waits until record-event "
                "'reduced' on stream 'compute' of step 0 is reached"}));
}

TEST(SimulateTest, AMemberWithoutTheCommunicatorIsNamed) {
  Rank a(0, 1);
  const Rank b(4, 1);
  const Index data = a->AddCommunicator("data", {0, 4});
  a->Communicate(0, a.Collective(CollectiveKind::kAllReduce, data, 5));
  EXPECT_EQ(Blocked({a.Class(), b.Class()}),
            (std::vector<std::string>{
                "rank 0, prologue: all_reduce on communicator 'data' on stream 'compute' waits "
                "for rank 4, which has no communicator with this name and these ranks"}));
}

TEST(SimulateTest, WithABarrierTheOthersWait) {
  Rank a(0, 1);
  Rank b(4, 1);
  const Index data0 = a->AddCommunicator("data", {0, 4});
  b->AddCommunicator("data", {0, 4});
  a->Step().Communicate(0, a.Collective(CollectiveKind::kAllReduce, data0, 5));
  b->Step().Run(0, b.Kernel("k", 1));
  const std::vector<RankClass> classes = {a.Class(), b.Class()};
  const auto timelines = Simulate(classes, {.steps = 2, .barrier = true});
  ASSERT_FALSE(timelines.has_value());
  EXPECT_EQ(timelines.error().blocked,
            (std::vector<std::string>{
                "rank 0: the host waits for all work of step 0 before it issues the next step",
                "rank 0, step 0: all_reduce on communicator 'data' on stream 'compute' waits for "
                "rank 4, which has not reached the collective",
                "rank 4: the host waits for all work of step 0 before it issues the next step",
                "rank 4, step 1: kernel 'k' on stream 'compute' has not been issued by the host"}));
}

// In the first step the host waits until the fifth of sixteen layers of 1 us each. In the second
// step it waits for the record of the twelfth layer in the first.
TEST(SimulateTest, TheHostWaitsForALayerOfTheStepBefore) {
  Rank rank(0, 1);
  const Index fifth = rank->AddEvent("fifth"), twelfth = rank->AddEvent("twelfth");
  const Index others = rank->AddEvent("others");
  const Index kernel = rank.Kernel("kernel", 1'000);
  rank->Step().HostWait(twelfth).HostTask("task", Nanoseconds(5));
  for (int layer = 1; layer <= 16; ++layer) {
    rank->Run(0, kernel).Record(0, layer == 5 ? fifth : layer == 12 ? twelfth : others);
  }
  rank->HostWait(fifth);
  const Timeline timeline = RunOne(rank, {.steps = 2});
  std::vector<Time> tasks;
  for (const program::OperationRecord& record : timeline.operations) {
    if (rank.Class().program->step[record.instruction].opcode == program::Opcode::kHostTask) {
      tasks.push_back(record.start);
    }
  }
  EXPECT_EQ(tasks, (std::vector<Time>{Time(), Nanoseconds(12'005)}));
}

TEST(SimulateTest, ASimulatorForgetsTheRunBefore) {
  Rank small(0, 1);
  small->Step().Run(0, small.Kernel("k", 3));
  Rank hangs(0, 2);
  const Rank absent(4, 1);
  const Index data = hangs->AddCommunicator("data", {0, 4});
  const Index event = hangs->AddEvent("event");
  hangs->Step().Run(0, hangs.Kernel("k", 3, 1.0));
  hangs->Communicate(1, hangs.Collective(CollectiveKind::kAllReduce, data, 5, 1.0));
  hangs->Record(1, event).Wait(0, event);
  Simulator simulator;
  const std::vector<RankClass> both = {hangs.Class(), absent.Class()};
  const RankClass one = small.Class();
  EXPECT_FALSE(simulator.Run(both, {}).has_value());
  for (int i = 0; i < 2; ++i) {
    const auto timelines = simulator.Run({&one, 1}, {.steps = 2});
    ASSERT_TRUE(timelines.has_value());
    ASSERT_EQ(timelines->size(), 1u);
    EXPECT_EQ(timelines->front().operations.size(), 2u);
    EXPECT_EQ(StepEnds(timelines->front()), (std::vector<int>{3, 6}));
  }
}

// Ranks 0 and 1 are on one switch, 2 and 3 on another: the pairs {0, 2} and {1, 3} share the link
// between the switches. Every link has 10 GB/s and no latency, so an uncontended all-reduce of 100
// kB between two ranks takes 10 us.
network::CollectiveTraffic TwoPairs(bool messages) {
  network::Network::Description description;
  for (int rank = 0; rank < 4; ++rank) {
    description.AddDevice("rank" + std::to_string(rank), false);
    description.AddPlace({rank});
  }
  const int a = description.AddDevice("a", true);
  const int b = description.AddDevice("b", true);
  const auto link = [&](int from, int to) {
    description.AddBothWays(
        {.from = from, .to = to, .bandwidth = Bandwidth::GigabytesPerSecond(10)});
  };
  link(0, a);
  link(1, a);
  link(2, b);
  link(3, b);
  link(a, b);
  network::CollectiveTraffic traffic;
  traffic.messages = messages;
  traffic.cluster = std::make_unique<network::ClusterNetwork>(
      network::ClusterNetwork{network::Network::Make(std::move(description)).value()});
  traffic.links = static_cast<std::uint32_t>(traffic.cluster->network.links());
  for (const std::vector<int>& ranks : {std::vector<int>{0, 2}, std::vector<int>{1, 3}}) {
    network::CollectiveTraffic::Collective& routed = traffic.collectives.emplace_back();
    routed.list = std::make_unique<collective::Ring>(collective::Ring::Options{
        CollectiveKind::kAllReduce, Bytes(100'000), {{0, 1}}, /*loops=*/10});
    routed.traffic = std::make_unique<network::Traffic>(
        network::Traffic::Make(*routed.list, traffic.cluster->network, ranks).value());
    routed.flow = network::DemandOf(*routed.traffic);
  }
  traffic.numbers = {{0}, {1}, {0}, {1}};
  return traffic;
}

// The second pair starts at 5 us, when the first has done half. Both continue at half rate: the
// first ends at 15 us, and the second, with half left by then, at 20 us.
TEST(Links, AreSharedByThoseWhoMeetThere) {
  Rank first(0, 1);
  Rank second(1, 1);
  first->Step().Communicate(0, first.Collective(CollectiveKind::kAllReduce,
                                                first->AddCommunicator("pair", {0, 2}), 10'000));
  second->Step().Run(0, second.Kernel("late", 5'000));
  second->Communicate(0, second.Collective(CollectiveKind::kAllReduce,
                                           second->AddCommunicator("pair", {1, 3}), 10'000));
  std::vector<RankClass> classes = {first.Class(), second.Class(), first.Class(), second.Class()};
  for (int rank = 0; rank < 4; ++rank)
    classes[static_cast<std::size_t>(rank)].representative = rank;

  const auto apart = Simulate(classes, {});
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(InNanoseconds((*apart)[0].step_ends[0]), 10'000);
  EXPECT_EQ(InNanoseconds((*apart)[1].step_ends[0]), 15'000);

  const network::CollectiveTraffic flows = TwoPairs(false);
  const auto shared = Simulate(classes, {.traffic = &flows});
  ASSERT_TRUE(shared.has_value());
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_NEAR((*shared)[rank].step_ends[0].microseconds(), rank % 2 == 0 ? 15 : 20, 0.001);
  }

  // Messages queue instead, and alternate in whole messages of half a microsecond.
  const network::CollectiveTraffic messages = TwoPairs(true);
  const auto queued = Simulate(classes, {.traffic = &messages});
  ASSERT_TRUE(queued.has_value());
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_NEAR((*queued)[rank].step_ends[0].microseconds(), rank % 2 == 0 ? 15 : 20, 1);
  }
}

// Uncontended, both take the time of the price, and records can be left out.
TEST(Links, LeaveWhoIsAloneAsPriced) {
  Rank rank(0, 1);
  const Index all = rank->AddCommunicator("pair", {0, 2});
  rank->Step().Communicate(0, rank.Collective(CollectiveKind::kAllReduce, all, 10'000));
  for (const bool by_message : {false, true}) {
    network::CollectiveTraffic traffic = TwoPairs(by_message);
    traffic.numbers = {{0}, {0}};
    RankClass other = rank.Class();
    other.representative = 2;
    other.records = false;
    const auto timelines =
        Simulate(std::vector<RankClass>{rank.Class(), other}, {.steps = 3, .traffic = &traffic});
    ASSERT_TRUE(timelines.has_value());
    for (int step = 0; step < 3; ++step) {
      const auto at = static_cast<std::size_t>(step);
      EXPECT_NEAR((*timelines)[0].step_ends[at].microseconds(), 10 * (step + 1), 0.01);
      EXPECT_EQ((*timelines)[1].step_ends[at], (*timelines)[0].step_ends[at]);
    }
    EXPECT_EQ((*timelines)[0].operations.size(), 3U);
    EXPECT_TRUE((*timelines)[1].operations.empty());
  }
}

}  // namespace
}  // namespace stepcast::simulate
