#include "src/cost/price.h"

#include <initializer_list>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::cost {
namespace {

using program::CopyDirection;
using program::Opcode;
using program::Phase;
using program::Program;
using scenario::Scenario;

Kernel Given(Time time) {
  Kernel kernel;
  kernel.name = "block forward";
  kernel.kind = KernelKind::kGiven;
  kernel.given = time;
  return kernel;
}

Kernel OfKind(KernelKind kind, std::int64_t flops, Bytes read) {
  Kernel kernel;
  kernel.name = "self_attn.q_proj";
  kernel.kind = kind;
  kernel.flops = flops;
  kernel.read = read;
  return kernel;
}

// 100 Tflop/s in BF16 and 1 TB/s of memory.
topology::Gpu RoundGpu() {
  topology::Gpu gpu;
  gpu.name = "round";
  gpu.memory_bandwidth = Bandwidth::GigabytesPerSecond(1000);
  gpu.peak[static_cast<std::size_t>(DataType::kBf16)] = FlopRate::TeraflopsPerSecond(100);
  gpu.peak[static_cast<std::size_t>(DataType::kFp16)] = FlopRate::TeraflopsPerSecond(100);
  return gpu;
}

calibration::Calibration RoundProfile() {
  calibration::Calibration profile;
  profile.name = "round";
  profile.location = {.file = "round.yaml", .line = 1, .column = 1};
  auto& kernels = profile.kernels.emplace();
  kernels.gemm[static_cast<std::size_t>(DataType::kBf16)].max_efficiency = 0.5;
  kernels.attention_forward_efficiency = 0.5;
  kernels.attention_backward_efficiency = 0.25;
  kernels.memory_efficiency = 0.5;
  kernels.start_latency = Microseconds(2);
  kernels.launch = Microseconds(5);
  kernels.collective_launch = Microseconds(20);
  auto& links = profile.links.emplace();
  links.nvlink_efficiency = 0.5;
  links.pcie_efficiency = 0.5;
  links.network_efficiency = 0.5;
  links.ring_nvlink_hop = Microseconds(3);
  links.ring_network_hop = Microseconds(14);
  return profile;
}

calibration::CollectiveTable TableOf(CollectiveKind kind, int ranks,
                                     std::vector<std::pair<Bytes, Time>> points) {
  calibration::CollectiveTable table;
  table.location = {.file = "round.yaml", .line = 30, .column = 5};
  table.collective = kind;
  table.ranks = ranks;
  table.nodes = ranks;
  table.points = std::move(points);
  return table;
}

const topology::LinkSpec kLink = {.latency = Microseconds(5),
                                  .bandwidth = Bandwidth::GigabytesPerSecond(25)};

Scenario FlatScenario(int devices, std::optional<topology::LinkSpec> link = kLink) {
  Scenario scenario;
  scenario.cluster = std::make_shared<topology::Cluster>(
      topology::FlatCluster{.devices = devices, .memory = GiB(80), .gpu = "", .link = link});
  scenario.algorithm = scenario::CollectiveAlgorithm::kRing;
  scenario.plan.data_parallel.framework = plan::Framework::kDdp;
  return scenario;
}

void SetProfile(Scenario& scenario, calibration::Calibration profile) {
  scenario.calibration = std::make_shared<calibration::Calibration>(std::move(profile));
}

Scenario GpuScenario(int devices) {
  Scenario scenario = FlatScenario(devices);
  scenario.gpu = RoundGpu();
  SetProfile(scenario, RoundProfile());
  return scenario;
}

// Two GPUs per node on 100 GB/s of NVLink, PCIe of 40 GB/s to the CPU and its NIC, 50 GB/s of
// network.
Scenario NodesScenario(int nodes) {
  using topology::DeviceKind;
  topology::NodeType node;
  node.name = "pair";
  node.gpu = "round";
  node.gpu_memory = GiB(80);
  node.devices = {2, 0, 0, 1, 1};
  const topology::LinkSpec nvlink = {.latency = Microseconds(1),
                                     .bandwidth = Bandwidth::GigabytesPerSecond(100)};
  const topology::LinkSpec pcie = {.latency = Microseconds(1),
                                   .bandwidth = Bandwidth::GigabytesPerSecond(40)};
  const topology::DeviceSet gpus = {.kind = DeviceKind::kGpu, .indices = {0, 1}};
  const topology::DeviceSet cpu = {.kind = DeviceKind::kCpu, .indices = {0}};
  const topology::DeviceSet nic = {.kind = DeviceKind::kNic, .indices = {0}};
  node.links = {{.kind = topology::LinkKind::kNvLink,
                 .from = gpus,
                 .to = gpus,
                 .join = topology::Join::kAllToAll,
                 .link = nvlink},
                {.kind = topology::LinkKind::kPcie, .from = gpus, .to = cpu, .link = pcie},
                {.kind = topology::LinkKind::kPcie, .from = nic, .to = cpu, .link = pcie}};
  topology::Fabric fabric;
  fabric.link = {.latency = Microseconds(1), .bandwidth = Bandwidth::GigabytesPerSecond(50)};
  Scenario scenario = GpuScenario(1);
  scenario.cluster = std::make_shared<topology::Cluster>(
      node, nodes > 1 ? std::optional(fabric) : std::nullopt, nodes);
  return scenario;
}

// A program over one group of the ranks 0 to ranks - 1.
Program WithGroup(int ranks) {
  Program program;
  program.streams = {{"compute"}};
  program.groups.push_back({"data", std::vector<int>(static_cast<std::size_t>(ranks))});
  std::iota(program.groups[0].ranks.begin(), program.groups[0].ranks.end(), 0);
  program.communicators.push_back({"data", 0});
  return program;
}

void AddCollective(Program& program, CollectiveKind kind, Bytes bytes,
                   program::Index communicator = 0) {
  program.collectives.push_back(
      {.kind = kind, .communicator = communicator, .bytes = bytes, .data_type = DataType::kBf16});
}

Prices MustPrice(const Program& program, const Scenario& scenario) {
  auto prices = Price(program, scenario);
  EXPECT_TRUE(prices.has_value()) << Format(prices.error());
  return prices.value_or(Prices());
}

std::vector<std::string> Codes(const Program& program, const Scenario& scenario) {
  std::vector<std::string> codes;
  const auto prices = Price(program, scenario);
  if (prices) return codes;
  for (const Diagnostic& diagnostic : prices.error()) codes.push_back(diagnostic.code);
  return codes;
}

using Names = std::vector<std::string>;

TEST(PricesTest, LayerListOnAFlatClusterWithoutGpu) {
  Program program = WithGroup(4);
  program.kernels = {Given(Milliseconds(10)), OfKind(KernelKind::kMemoryBound, 0, MiB(25))};
  program.copies = {{CopyDirection::kDeviceToDevice, MiB(25)},
                    {CopyDirection::kHostToDevice, MiB(25)}};
  AddCollective(program, CollectiveKind::kAllReduce, Bytes(1'000'000'000));
  const Prices prices = MustPrice(program, FlatScenario(4));
  ASSERT_EQ(prices.kernels.size(), 2u);
  EXPECT_EQ(prices.kernels[0].uncontended(), Milliseconds(10));
  EXPECT_EQ(prices.kernels[0].provenance, Provenance::kGiven);
  EXPECT_EQ(prices.kernels[1].uncontended(), Time());
  ASSERT_EQ(prices.copies.size(), 2u);
  EXPECT_EQ(prices.copies[0].uncontended(), Time());
  EXPECT_EQ(prices.copies[1].uncontended(), Time());
  EXPECT_EQ(prices.issue_kernel, Time());
  EXPECT_EQ(prices.issue_copy, Time());
  EXPECT_EQ(prices.issue_collective, Time());
  // 2 x 3 x 5 us + 2 x 3/4 x 1e9 / 25e9.
  ASSERT_EQ(prices.collectives.size(), 1u);
  EXPECT_EQ(prices.collectives[0].demand.uncontended(), Microseconds(30) + Milliseconds(60));
}

RC_GTEST_PROP(PricesTest, FlatRingIsTheClosedForm, ()) {
  const int ranks = *rc::gen::inRange(2, 600);
  const topology::LinkSpec link = {
      .latency = Nanoseconds(*rc::gen::inRange(0, 100'000)),
      .bandwidth = Bandwidth::GigabytesPerSecond(*rc::gen::inRange(1, 1000))};
  // A buffer that divides into chunks, so that the closed form has no fraction of a byte.
  const Bytes chunk(*rc::gen::inRange<std::int64_t>(0, 10'000'000));
  Program program = WithGroup(ranks);
  AddCollective(program, CollectiveKind::kAllReduce, chunk * ranks);
  AddCollective(program, CollectiveKind::kReduceScatter, chunk * ranks);
  const Prices prices = MustPrice(program, FlatScenario(ranks, link));
  const std::int64_t steps = ranks - 1;
  RC_ASSERT(prices.collectives[0].demand.uncontended() ==
            2 * steps * link.latency + 2 * steps * chunk / link.bandwidth);
  RC_ASSERT(prices.collectives[1].demand.uncontended() ==
            steps * link.latency + steps * chunk / link.bandwidth);
  RC_ASSERT(prices.collectives[0].wire_bytes_per_rank ==
            static_cast<double>((2 * steps * chunk).count()));
}

TEST(PricesTest, KernelsNeedAGpuAndSaySoOnce) {
  Program program = WithGroup(1);
  program.kernels = {OfKind(KernelKind::kGemm, 1000, KiB(1)),
                     OfKind(KernelKind::kAttention, 1000, KiB(1)),
                     OfKind(KernelKind::kOptimizer, 0, KiB(1))};
  EXPECT_EQ(Codes(program, FlatScenario(1)), Names{"cost.no-gpu"});
}

TEST(PricesTest, KernelsNeedAProfileWithKernels) {
  Program program = WithGroup(1);
  program.kernels = {Given(Milliseconds(1))};
  Scenario scenario = GpuScenario(1);
  calibration::Calibration profile = RoundProfile();
  profile.kernels.reset();
  SetProfile(scenario, profile);
  EXPECT_EQ(MustPrice(program, scenario).issue_kernel, Time());
  program.kernels.push_back(OfKind(KernelKind::kGemm, 1000, KiB(1)));
  const auto prices = Price(program, scenario);
  ASSERT_FALSE(prices.has_value());
  ASSERT_EQ(prices.error().size(), 1u);
  EXPECT_EQ(prices.error()[0].code, "cost.no-kernel-costs");
  EXPECT_EQ(prices.error()[0].location.file, "round.yaml");
}

TEST(PricesTest, DataTypesNeedPeakAndEfficiency) {
  Program program = WithGroup(1);
  for (DataType type : {DataType::kFp8, DataType::kFp16, DataType::kFp8, DataType::kBf16}) {
    program.kernels.push_back(OfKind(KernelKind::kGemm, 1000, KiB(1)));
    program.kernels.back().data_type = type;
  }
  EXPECT_EQ(Codes(program, GpuScenario(1)), (Names{"cost.no-peak", "cost.no-efficiency"}));
}

TEST(PricesTest, FrameworksPayForLaunchesAndTheTextbookDoesNot) {
  Program program = WithGroup(2);
  program.kernels = {OfKind(KernelKind::kMemoryBound, 0, Bytes(50'000'000))};
  program.copies = {{CopyDirection::kDeviceToDevice, Bytes(50'000'000)}};
  AddCollective(program, CollectiveKind::kAllReduce, Bytes(50'000'000));
  Scenario scenario = GpuScenario(2);
  const Prices eager = MustPrice(program, scenario);
  EXPECT_EQ(eager.issue_kernel, Microseconds(5));
  EXPECT_EQ(eager.issue_copy, Microseconds(5));
  EXPECT_EQ(eager.issue_collective, Microseconds(20));
  // 50e6 / 0.5e12 = 100 us after a start of 2 us; the copy reads and writes.
  EXPECT_EQ(eager.kernels[0].latency, Microseconds(2));
  EXPECT_EQ(eager.kernels[0].work, Microseconds(100));
  EXPECT_EQ(eager.copies[0].latency, Microseconds(2));
  EXPECT_EQ(eager.copies[0].work, Microseconds(200));

  // A framework's code comes on top, where a module or autograd issues the kernel.
  scenario.plan.training.dispatch = {.module = Microseconds(100), .autograd = Microseconds(30)};
  const Prices slow = MustPrice(program, scenario);
  Kernel kernel = program.kernels[0];
  EXPECT_EQ(slow.IssueOf(kernel), Microseconds(5));
  kernel.issuer = Issuer::kModule;
  EXPECT_EQ(slow.IssueOf(kernel), Microseconds(105));
  kernel.issuer = Issuer::kAutograd;
  EXPECT_EQ(slow.IssueOf(kernel), Microseconds(35));

  scenario.plan.data_parallel.framework = plan::Framework::kReference;
  const Prices textbook = MustPrice(program, scenario);
  EXPECT_EQ(textbook.IssueOf(kernel), Time());
  EXPECT_EQ(textbook.issue_kernel, Time());
  EXPECT_EQ(textbook.issue_copy, Time());
  EXPECT_EQ(textbook.issue_collective, Time());
  EXPECT_EQ(textbook.kernels[0].uncontended(), Microseconds(100));
  EXPECT_EQ(textbook.copies[0].uncontended(), Microseconds(200));
  // Both price the flat cluster's collective by the textbook.
  EXPECT_EQ(textbook.collectives[0].demand.uncontended(),
            eager.collectives[0].demand.uncontended());
}

// Four ranks: an even all-to-all of 8 MB takes 8 ms by its table, although a rank sends 6 MB, which
// as a message take 6 ms. Now the first rank is sent 1.5 times the mean and the others (4 - 1.5) /
// (4.5). Its part is 3 MB instead of 2 MB, and theirs 5/9 of it. That is an even all-to-all of 12
// MB x 5/9, 6.67 ms, and 3 x 4/9 x 3 MB = 4 MB only for the first, 4 ms minus the latency of 1 us,
// already counted.
TEST(PricesTest, WhatTheFirstIsSentBeyondOthersHasItsLinksForItself) {
  Program program = WithGroup(4);
  const Bytes even(8'000'000), uneven(12'000'000);
  AddCollective(program, CollectiveKind::kAllToAll, even);
  AddCollective(program, CollectiveKind::kAllToAll, uneven);
  program.collectives[1].loads = AllToAllLoads::Of(1.5, 4, AllToAllLoads::First::kReceivesMost);
  Scenario scenario = FlatScenario(4);
  calibration::Calibration profile;
  profile.collectives = {TableOf(CollectiveKind::kAllToAll, 4,
                                 {{KiB(1), Microseconds(1)}, {Bytes(1'000'000), Milliseconds(1)}}),
                         TableOf(CollectiveKind::kSendRecv, 2,
                                 {{KiB(1), Microseconds(1)}, {Bytes(1'000'000), Milliseconds(1)}})};
  SetProfile(scenario, profile);
  const Prices prices = MustPrice(program, scenario);
  EXPECT_EQ(prices.collectives[0].demand.uncontended(), Milliseconds(8));
  EXPECT_NEAR(prices.collectives[1].demand.uncontended().seconds(), 0.01066567, 1e-8);
  EXPECT_EQ(prices.collectives[1].demand.provenance, Provenance::kTransferred);
  EXPECT_NEAR(prices.collectives[1].wire_bytes_per_rank, 9e6, 1);
}

TEST(PricesTest, TablesComeBeforeLinks) {
  Program program = WithGroup(4);
  AddCollective(program, CollectiveKind::kAllReduce, KiB(64));
  AddCollective(program, CollectiveKind::kAllReduce, MiB(1));
  AddCollective(program, CollectiveKind::kAllReduce, MiB(2));
  AddCollective(program, CollectiveKind::kAllGather, Bytes(1'000'000'000));
  Scenario scenario = FlatScenario(4);
  calibration::Calibration profile;
  profile.collectives = {TableOf(CollectiveKind::kAllReduce, 4,
                                 {{KiB(4), Microseconds(1800)}, {MiB(1), Microseconds(13100)}})};
  SetProfile(scenario, profile);
  const Prices prices = MustPrice(program, scenario);
  EXPECT_EQ(prices.collectives[0].demand.uncontended(), Microseconds(7450));
  EXPECT_EQ(prices.collectives[0].demand.provenance, Provenance::kInterpolated);
  EXPECT_STREQ(prices.collectives[0].algorithm, "table");
  EXPECT_EQ(prices.collectives[1].demand.provenance, Provenance::kMeasured);
  EXPECT_EQ(prices.collectives[2].demand.uncontended(), Microseconds(26200));
  EXPECT_EQ(prices.collectives[2].demand.provenance, Provenance::kExtrapolated);
  EXPECT_STREQ(prices.collectives[3].algorithm, "ring");
  EXPECT_EQ(prices.collectives[3].demand.provenance, Provenance::kModelled);
}

TEST(PricesTest, WithoutLinkAndTableThereIsNoPrice) {
  Program program = WithGroup(4);
  AddCollective(program, CollectiveKind::kAllReduce, KiB(64));
  AddCollective(program, CollectiveKind::kAllReduce, KiB(32));
  AddCollective(program, CollectiveKind::kAllGather, KiB(64));
  Scenario scenario = FlatScenario(4, std::nullopt);
  // One for each collective and group, not for each size.
  EXPECT_EQ(Codes(program, scenario), (Names{"cost.no-link", "cost.no-link"}));
  calibration::Calibration profile;
  profile.collectives = {TableOf(CollectiveKind::kAllReduce, 4, {{KiB(4), Microseconds(1)}}),
                         TableOf(CollectiveKind::kAllGather, 4, {{KiB(4), Microseconds(1)}})};
  SetProfile(scenario, profile);
  EXPECT_EQ(Codes(program, scenario), Names{});
  // A table over eight ranks is scaled to four.
  profile.collectives[0].ranks = profile.collectives[0].nodes = 8;
  SetProfile(scenario, profile);
  EXPECT_EQ(Codes(program, scenario), Names{});
  profile.collectives.erase(profile.collectives.begin());
  SetProfile(scenario, profile);
  EXPECT_EQ(Codes(program, scenario), Names{"cost.no-link"});
}

TEST(PricesTest, OneRankNeedsNoLink) {
  Program program = WithGroup(1);
  AddCollective(program, CollectiveKind::kAllReduce, MiB(64));
  const Prices prices = MustPrice(program, FlatScenario(1, std::nullopt));
  EXPECT_EQ(prices.collectives[0].demand.uncontended(), Time());
  EXPECT_STREQ(prices.collectives[0].algorithm, "none");
}

TEST(PricesTest, TablesFasterThanTheWireAreWrong) {
  // 1 GB over 4 ranks at 25 GB/s takes 60 ms on the wire.
  Program program = WithGroup(4);
  AddCollective(program, CollectiveKind::kAllReduce, KiB(64));
  Scenario scenario = FlatScenario(4);
  calibration::Calibration profile;
  profile.collectives = {
      TableOf(CollectiveKind::kAllReduce, 4,
              {{KiB(4), Milliseconds(1)}, {Bytes(1'000'000'000), Microseconds(59'999)}})};
  SetProfile(scenario, profile);
  const auto prices = Price(program, scenario);
  ASSERT_FALSE(prices.has_value());
  ASSERT_EQ(prices.error().size(), 1u);
  const Diagnostic& diagnostic = prices.error()[0];
  EXPECT_EQ(diagnostic.code, "cost.faster-than-wire");
  EXPECT_EQ(diagnostic.location.file, "round.yaml");
  EXPECT_EQ(diagnostic.location.line, 30);
  profile.collectives[0].points[1].second = Milliseconds(60);
  SetProfile(scenario, profile);
  EXPECT_EQ(Codes(program, scenario), Names{});
}

TEST(PricesTest, RealTopologiesUseTheProfilesLinks) {
  // One node: 2 hops of 3 us; 2 x 1/2 x 1e9 / (0.5 x 100e9) = 20 ms.
  Program program = WithGroup(2);
  AddCollective(program, CollectiveKind::kAllReduce, Bytes(1'000'000'000));
  Scenario scenario = NodesScenario(1);
  const Prices prices = MustPrice(program, scenario);
  EXPECT_EQ(prices.collectives[0].demand.uncontended(), Microseconds(6) + Milliseconds(20));
  EXPECT_EQ(prices.collectives[0].bandwidth_bound, Milliseconds(10));
  calibration::Calibration profile = RoundProfile();
  profile.links.reset();
  SetProfile(scenario, profile);
  EXPECT_EQ(Codes(program, scenario), Names{"cost.no-link-costs"});
}

TEST(PricesTest, EachGroupHasItsOwnPath) {
  // The node's pair on NVLink, and one GPU of each node over the network.
  Program program = WithGroup(2);
  program.groups.push_back({"replica", {0, 2}});
  program.communicators.push_back({"replica", 1});
  AddCollective(program, CollectiveKind::kAllGather, MiB(64), 0);
  AddCollective(program, CollectiveKind::kAllGather, MiB(64), 1);
  const Prices prices = MustPrice(program, NodesScenario(2));
  const auto share = [&](std::size_t i, Resource resource) {
    return prices.collectives[i].demand.share[static_cast<std::size_t>(resource)];
  };
  EXPECT_EQ(share(0, Resource::kScaleUp), 1);
  EXPECT_EQ(share(0, Resource::kNetwork), 0);
  EXPECT_EQ(share(1, Resource::kScaleUp), 0);
  EXPECT_EQ(share(1, Resource::kNetwork), 1);
  EXPECT_GT(prices.collectives[1].demand.uncontended(), prices.collectives[0].demand.uncontended());
}

TEST(PricesTest, CopiesToTheHostCrossPcie) {
  Program program = WithGroup(1);
  program.copies = {{CopyDirection::kDeviceToHost, Bytes(1'000'000'000)}};
  Scenario scenario = NodesScenario(1);
  const Prices prices = MustPrice(program, scenario);
  EXPECT_EQ(prices.copies[0].latency, Microseconds(3));  // start 2 us, wire 1 us
  EXPECT_EQ(prices.copies[0].work, Milliseconds(50));    // 1e9 / (0.5 x 40e9)
  EXPECT_EQ(prices.copies[0].share[static_cast<std::size_t>(Resource::kHostLink)], 1);
  EXPECT_EQ(Codes(program, GpuScenario(1)), Names{"cost.no-host-link"});
}

// A measured profile: only times.
calibration::Calibration MeasuredProfile() {
  calibration::Calibration profile = RoundProfile();
  calibration::KernelCosts kernels;
  kernels.start_latency = Microseconds(2);
  kernels.launch = Microseconds(5);
  kernels.collective_launch = Microseconds(20);
  kernels.memory_curve = {{KiB(1), Microseconds(3)}, {KiB(3), Microseconds(5)}};
  kernels.gemm_surface[static_cast<std::size_t>(DataType::kBf16)] = {
      .m = {64, 256}, .n = {64}, .k = {64}, .times = {Microseconds(4), Microseconds(10)}};
  kernels.attention_forward_surface[static_cast<std::size_t>(DataType::kBf16)] = {
      {.head_size = 64, .heads = 16, .points = {{512, Microseconds(12)}}}};
  profile.kernels = kernels;
  profile.copies.device_to_host = {{MiB(1), Microseconds(50)}};
  profile.copies.device_to_device = {{MiB(1), Microseconds(7)}};
  return profile;
}

Kernel Product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
  Kernel kernel = OfKind(KernelKind::kGemm, 2 * batch * m * n * k, KiB(1));
  kernel.batch = batch;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  return kernel;
}

Kernel Core(std::int64_t heads, std::int64_t sequence, std::int64_t head_size) {
  Kernel kernel =
      OfKind(KernelKind::kAttention, 2 * heads * sequence * sequence * head_size, KiB(1));
  kernel.batch = heads;
  kernel.m = kernel.n = sequence;
  kernel.k = head_size;
  return kernel;
}

TEST(PricesTest, MeasuredTimesComeBeforeEfficiencies) {
  Program program = WithGroup(1);
  program.kernels = {
      OfKind(KernelKind::kMemoryBound, 0, KiB(2)),  // 4 us, half-way
      OfKind(KernelKind::kOptimizer, 0, KiB(3)),    // 5 us: no curve of its own
      Product(4, 64, 64, 64),                       // 10 us, as one of 256 rows
      Core(16, 512, 128),                           // 24 us, beyond the point
  };
  program.copies = {{CopyDirection::kDeviceToHost, MiB(2)},
                    {CopyDirection::kDeviceToDevice, MiB(1)}};
  Scenario scenario = GpuScenario(1);
  SetProfile(scenario, MeasuredProfile());
  const Prices prices = MustPrice(program, scenario);
  const Time kernels[] = {Microseconds(4), Microseconds(5), Microseconds(10), Microseconds(24)};
  const Provenance from[] = {Provenance::kInterpolated, Provenance::kMeasured,
                             Provenance::kMeasured, Provenance::kExtrapolated};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(prices.kernels[i].uncontended(), kernels[i]) << i;
    EXPECT_EQ(prices.kernels[i].latency, Microseconds(2)) << i;
    EXPECT_EQ(prices.kernels[i].provenance, from[i]) << i;
  }
  // Product: compute rules; its 1 KiB of traffic would take 3 - 2 us of its 8.
  EXPECT_EQ(prices.kernels[2].share[static_cast<std::size_t>(Resource::kCompute)], 1);
  EXPECT_EQ(prices.kernels[2].share[static_cast<std::size_t>(Resource::kMemory)], 0.125);
  // A copy to the host needs no link when it was measured.
  EXPECT_EQ(prices.copies[0].uncontended(), Microseconds(100));
  EXPECT_EQ(prices.copies[0].share[static_cast<std::size_t>(Resource::kHostLink)], 1);
  EXPECT_EQ(prices.copies[1].uncontended(), Microseconds(7));

  scenario.plan.data_parallel.framework = plan::Framework::kReference;
  const Prices textbook = MustPrice(program, scenario);
  EXPECT_EQ(textbook.kernels[0].uncontended(), Microseconds(2));
  EXPECT_EQ(textbook.copies[1].uncontended(), Microseconds(5));
}

TEST(PricesTest, WhatWasNotMeasuredHasNoPrice) {
  Program program = WithGroup(1);
  program.kernels = {OfKind(KernelKind::kAttentionGradient, 1000, KiB(1)), Product(1, 64, 64, 64)};
  program.kernels[1].data_type = DataType::kFp16;
  Scenario scenario = GpuScenario(1);
  SetProfile(scenario, MeasuredProfile());
  EXPECT_EQ(Codes(program, scenario), (Names{"cost.no-efficiency", "cost.no-efficiency"}));
}

TEST(PricesTest, ProductsFasterThanThePeakAreWrong) {
  Program program = WithGroup(1);
  program.kernels = {Product(1, 64, 64, 64), Product(1, 128, 64, 64)};
  calibration::Calibration profile = MeasuredProfile();
  // 2 x 64^3 flops at 100 Tflop/s take 5.24 ns.
  profile.kernels->gemm_surface[static_cast<std::size_t>(DataType::kBf16)].times[0] =
      Nanoseconds(5);
  Scenario scenario = GpuScenario(1);
  SetProfile(scenario, profile);
  EXPECT_EQ(Codes(program, scenario), Names{"cost.faster-than-device"});
}

// Each layout has its own measurements; layouts without any use the forward's.
TEST(PricesTest, ProductsAreLookedUpByLayout) {
  Program program = WithGroup(1);
  for (const ProductLayout layout : kProductLayouts) {
    program.kernels.push_back(Product(1, 64, 64, 64));
    program.kernels.back().layout = layout;
  }
  calibration::Calibration profile = MeasuredProfile();
  profile.kernels->gemm_weight_gradient_surface[static_cast<std::size_t>(DataType::kBf16)] = {
      .m = {64}, .n = {64}, .k = {64}, .times = {Microseconds(6)}};
  Scenario scenario = GpuScenario(1);
  SetProfile(scenario, profile);
  const Prices prices = MustPrice(program, scenario);
  EXPECT_EQ(prices.kernels[0].uncontended(), Microseconds(4));
  EXPECT_EQ(prices.kernels[1].uncontended(), Microseconds(4));
  EXPECT_EQ(prices.kernels[2].uncontended(), Microseconds(6));
}

TEST(PricesTest, OperationsOfADayAreMistakes) {
  Program program = WithGroup(4);
  AddCollective(program, CollectiveKind::kAllReduce, GiB(16));
  const topology::LinkSpec byte_a_second = {.latency = Time(),
                                            .bandwidth = Bandwidth::BytesPerSecond(1)};
  EXPECT_EQ(Codes(program, FlatScenario(4, byte_a_second)), Names{"cost.too-long"});
}

bool Same(const Demand& a, const Demand& b) {
  return a.latency == b.latency && a.work == b.work && a.share == b.share &&
         a.provenance == b.provenance;
}

// Caching is invisible: after any change of kernels, sizes, ranks, device variation and framework,
// the prices equal those of a fresh pricer.
RC_GTEST_PROP(PriceCacheTest, KeepsWhatIsAsItWas, ()) {
  const auto any_kernel = [] {
    Kernel kernel =
        OfKind(*rc::gen::elementOf(std::vector<KernelKind>{
                   KernelKind::kGemm, KernelKind::kAttention, KernelKind::kMemoryBound,
                   KernelKind::kOptimizer, KernelKind::kGiven, KernelKind::kScan}),
               *rc::gen::inRange<std::int64_t>(0, 4) * 1'000'000'000, MiB(*rc::gen::inRange(0, 4)));
    kernel.given = Microseconds(*rc::gen::inRange(0, 3));
    kernel.summed_tokens = *rc::gen::inRange(0, 2);
    kernel.scan = *rc::gen::element(ScanKind::kDelta, ScanKind::kDeltaByChannel);
    kernel.steps = *rc::gen::element(0, 10'000);
    return kernel;
  };
  PriceCache cache;
  Program program = WithGroup(4);
  for (int i = 0; i < 8; ++i) program.kernels.push_back(any_kernel());
  program.copies = {{CopyDirection::kDeviceToDevice, MiB(25)}};
  calibration::Calibration profile = RoundProfile();
  profile.kernels->variation = 0.01;  // so that arithmetic takes longer on more ranks
  Scenario scenario = GpuScenario(4);
  SetProfile(scenario, profile);
  for (int row = 0; row < 6; ++row) {
    const int ranks = *rc::gen::inRange(2, 4);
    program.groups[0].ranks.resize(static_cast<std::size_t>(ranks));
    std::iota(program.groups[0].ranks.begin(), program.groups[0].ranks.end(), 0);
    scenario.plan.parallelism.data = ranks;
    program.collectives.clear();
    AddCollective(program, CollectiveKind::kAllReduce, MiB(*rc::gen::inRange(1, 3)));
    AddCollective(program, CollectiveKind::kAllGather, MiB(*rc::gen::inRange(1, 3)));
    const auto kept = cache.Price(program, scenario, {});
    RC_ASSERT(kept.has_value());
    const Prices fresh = MustPrice(program, scenario);
    RC_ASSERT(kept->kernels.size() == fresh.kernels.size());
    for (std::size_t i = 0; i < fresh.kernels.size(); ++i) {
      RC_ASSERT(Same(kept->kernels[i], fresh.kernels[i]));
    }
    RC_ASSERT(kept->collectives.size() == fresh.collectives.size());
    for (std::size_t i = 0; i < fresh.collectives.size(); ++i) {
      RC_ASSERT(Same(kept->collectives[i].demand, fresh.collectives[i].demand));
    }
    RC_ASSERT(kept->copies.size() == fresh.copies.size());
    RC_ASSERT(kept->issue_kernel == fresh.issue_kernel);
    RC_ASSERT(kept->issue_collective == fresh.issue_collective);
    if (*rc::gen::arbitrary<bool>()) continue;
    for (program::Index i = 0; i < program.kernels.size(); ++i) {
      if (*rc::gen::arbitrary<bool>()) continue;
      if (*rc::gen::inRange(0, 4) > 0) program.kernels[i] = any_kernel();
    }
    scenario.plan.data_parallel.framework = *rc::gen::elementOf(
        std::vector<plan::Framework>{plan::Framework::kDdp, plan::Framework::kReference});
  }
}

TEST(PriceCacheTest, ComplainsEachTime) {
  Program program = WithGroup(1);
  program.kernels = {OfKind(KernelKind::kGemm, 1000, KiB(1)),
                     OfKind(KernelKind::kGemm, 1000, KiB(1))};
  program.kernels[1].data_type = DataType::kFp16;  // which the profile has no figures for
  PriceCache cache;
  EXPECT_FALSE(cache.Price(program, GpuScenario(1), {}).has_value());
  EXPECT_FALSE(cache.Price(program, GpuScenario(1), {}).has_value());
  program.kernels.pop_back();
  EXPECT_TRUE(cache.Price(program, GpuScenario(1), {}).has_value());
}

// Two layers of 1 ms of products at the best rate and 1 ms of memory traffic, twice: 1100 W for
// products and 500 for traffic are 800 on average. A limit of 562 W sustains 0.8 of the clock
// (sustained_clock_test.cc). Products alone run at the cube root of 0.462, 0.773.
TEST(PriceCacheTest, ProductsHaveThePowerThatTheirMicroBatchLeaves) {
  calibration::Calibration profile = RoundProfile();
  profile.kernels->start_latency = Time();
  profile.kernels->power = {.idle = 100, .products = 1000, .memory = 500};
  Scenario scenario = GpuScenario(1);
  SetProfile(scenario, profile);
  scenario.gpu->power_limit = 562;
  model::Model model;
  model.layers.resize(2);
  model.source = model::LayerList();
  scenario.model = std::make_shared<model::Model>(model);
  Kernel product = OfKind(KernelKind::kGemm, 50'000'000'000, KiB(1));  // 50 Tflop/s
  Kernel norm = OfKind(KernelKind::kMemoryBound, 0, Bytes(500'000'000));
  std::vector<model::LayerWork> works(2);
  for (const Kernel& kernel : {product, norm}) {
    works[0].forward.push_back({.kernel = kernel, .group = {}});
    works[0].backward.push_back({.kernel = kernel, .group = {}});
  }
  // No layer does the second.
  works[1].forward.push_back({.kernel = product, .group = {}});
  Program program = WithGroup(1);
  program.kernels = {product, norm};
  PriceCache cache;
  const auto prices = cache.Price(program, scenario, works);
  ASSERT_TRUE(prices.has_value());
  EXPECT_NEAR(prices->kernels[0].work.seconds(), 1.25e-3, 2e-6);
  EXPECT_EQ(prices->kernels[1].work, Milliseconds(1));
  // Priced without the works of a micro-batch, then with them again as at first.
  EXPECT_NEAR(cache.Price(program, scenario, {})->kernels[0].work.seconds(),
              1e-3 / std::cbrt(0.462), 1e-9);
  EXPECT_EQ(cache.Price(program, scenario, works)->kernels[0].work, prices->kernels[0].work);
  works[0].backward.pop_back();
  EXPECT_LT(prices->kernels[0].work, cache.Price(program, scenario, works)->kernels[0].work);
}

// Messages.

Program WithMessage(int rank, std::vector<int> group, const program::Message& message,
                    const parallel::GroupLayout& layout = {}) {
  Program program;
  program.rank = rank;
  program.streams = {{"compute"}};
  program.groups = {{.name = "pipeline", .ranks = std::move(group), .layout = layout}};
  program.communicators = {{.name = "pipeline", .group = 0}};
  program.exchanges = {{.communicator = 0, .messages = {message}}};
  return program;
}

double ShareOf(const Demand& demand, Resource resource) {
  return demand.share[static_cast<std::size_t>(resource)];
}

// A link of 5 us and 25 GB/s: 25 MB take 1 ms. The sender's egress and the receiver's ingress.
TEST(PriceTest, AMessageTakesItsLink) {
  const Scenario scenario = FlatScenario(4);
  const program::Message send = {program::MessageDirection::kSend, 2, Bytes(25'000'000)};
  const program::Message receive = {program::MessageDirection::kReceive, 1, Bytes(25'000'000)};
  const auto sent = Price(WithMessage(1, {0, 1, 2, 3}, send), scenario);
  const auto received = Price(WithMessage(2, {0, 1, 2, 3}, receive), scenario);
  ASSERT_TRUE(sent && received);
  const Demand& from = sent->exchanges.front().front().demand;
  const Demand& to = received->exchanges.front().front().demand;
  for (const Demand& demand : {from, to}) {
    EXPECT_EQ(demand.latency, Microseconds(5));
    EXPECT_EQ(demand.work, Milliseconds(1));
    EXPECT_EQ(demand.provenance, Provenance::kModelled);
  }
  EXPECT_EQ(ShareOf(from, Resource::kNetwork), 1);
  EXPECT_EQ(ShareOf(from, Resource::kNetworkIn), 0);
  EXPECT_EQ(ShareOf(to, Resource::kNetwork), 0);
  EXPECT_EQ(ShareOf(to, Resource::kNetworkIn), 1);
  EXPECT_EQ(sent->exchanges.front().front().bandwidth_bound, Milliseconds(1));
}

// NVLink at half of 100 GB/s, and a copy's start; no multiprocessors.
TEST(PriceTest, CopyEnginesTakeTheLinkAlone) {
  const Scenario scenario = NodesScenario(1);
  const program::Message send = {program::MessageDirection::kSend, 1, Bytes(50'000'000)};
  Program program = WithMessage(0, {0, 1}, send);
  const auto by_library = Price(program, scenario);
  program.exchanges.front().multiprocessors = 0;
  const auto by_engines = Price(program, scenario);
  ASSERT_TRUE(by_library && by_engines);
  const Demand& demand = by_engines->exchanges.front().front().demand;
  EXPECT_EQ(demand.work, Milliseconds(1));
  EXPECT_EQ(ShareOf(demand, Resource::kCompute), 0);
  EXPECT_EQ(ShareOf(demand, Resource::kScaleUp), 1);
  EXPECT_GT(ShareOf(demand, Resource::kMemory), 0);
  EXPECT_LE(demand.uncontended(), by_library->exchanges.front().front().demand.uncontended());
}

// Inside a node over NVLink, between nodes over the network. If both GPUs of a node send to the
// next node at once, as two parallel pipelines do, they share its one card.
TEST(PriceTest, MessagesOfSiblingGroupsShareCards) {
  const Scenario scenario = NodesScenario(2);
  const program::Message send = {program::MessageDirection::kSend, 1, Bytes(100'000'000)};
  const auto work = [&](std::vector<int> group, const parallel::GroupLayout& layout) {
    const auto prices = Price(WithMessage(group.front(), group, send, layout), scenario);
    EXPECT_TRUE(prices.has_value());
    return prices ? prices->exchanges.front().front().demand.work : Time();
  };
  const Time inside = work({0, 1}, parallel::GroupLayout(4, {{.stride = 1, .degree = 2}}));
  const Time alone = work({0, 2}, {});
  const Time shared = work({0, 2}, parallel::GroupLayout(4, {{.stride = 2, .degree = 2}}));
  EXPECT_LT(inside, alone);
  // No less than the card needs for both: 200 MB at 40 GB/s of PCIe, in front of 50 GB/s.
  EXPECT_GE(shared, Milliseconds(5));
  EXPECT_GE(alone, Microseconds(2500));
}

// In a ring every rank sends to the next one and receives from the previous one. A received message
// is another rank's sent message over the same cards, so only the sends count.
TEST(PriceTest, ARingsMessagesLoadSharedLinksOnce) {
  const Scenario scenario = NodesScenario(2);
  const Bytes bytes(100'000'000);
  Program program = WithMessage(0, {0, 1, 2, 3}, {program::MessageDirection::kSend, 1, bytes}, {});
  program.exchanges.front().peers = program::PeerNaming::kDistance;
  program.exchanges.front().messages.push_back({program::MessageDirection::kReceive, -1, bytes});
  const auto prices = Price(program, scenario);
  ASSERT_TRUE(prices.has_value());
  const auto busiest = [&](std::size_t message) {
    const auto& share = prices->exchanges.front()[message].demand.share;
    return *std::max_element(share.begin() + static_cast<std::ptrdiff_t>(Resource::kNodeLinks),
                             share.end());
  };
  EXPECT_GT(busiest(0), 0);
  EXPECT_EQ(busiest(1), 0);
}

}  // namespace
}  // namespace stepcast::cost
