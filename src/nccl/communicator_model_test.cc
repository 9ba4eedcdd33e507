#include "src/nccl/communicator_model.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "tests/examples/sample_communicators.h"

namespace stepcast::nccl {
namespace {

// --- The tuner's tables, worked out from NVIDIA/nccl 2.30.7, src/graph/tuning.cc: latency in us /
// algorithm bandwidth in GB/s, in the order Tree LL, LL128, Simple, Ring LL, LL128, Simple, and
// NVLS (in one node) or NVLSTree (across several) Simple. For example H100, one node, all-reduce:
//   Tree LL       6.8 + 2 x 7 x 0.6 = 15.2; min(0.92 x 360, 12 x 38.7) / 3.8 / 2 = 43.6
//   Ring Simple   8.4 + 14 x 3.4 = 56.0; 360 x 8 / 14 = 205.7
//   NVLS          25; 8 x min(40 x 0.85 x 7/8 x 2, 60) x 8 / 14 = 272.0
struct TableCase {
  std::string_view name;
  Communicator communicator;
  Function function;
  std::vector<std::string> cells;
};

std::vector<TableCase> TableCases() {
  const Function all_reduce = Function::kAllReduce;
  const Function all_gather = Function::kAllGather;
  return {
      {"H100-1x8 AR",
       H100(1),
       all_reduce,
       {"15.2/43.6", "31.5/128.8", "64.4/165.6", "15.0/80.6", "40.6/189.3", "56.0/205.7",
        "25.0/272.0"}},
      {"H100-1x8 AG",
       H100(1),
       all_gather,
       {"-", "-", "-", "10.8/161.1", "27.3/378.5", "32.2/411.4", "25.0/208.2"}},
      {"H100-2x8 AR",
       H100(2),
       all_reduce,
       {"25.2/19.5", "48.5/146.8", "92.4/165.6", "40.0/20.8", "75.2/156.6", "131.6/204.8",
        "66.8/246.2"}},
      {"H100-2x8 AG",
       H100(2),
       all_gather,
       {"-", "-", "-", "23.3/41.6", "44.6/313.2", "70.0/409.6", "-"}},
      {"H100-4x8 AR",
       H100(4),
       all_reduce,
       {"35.2/10.2", "65.5/116.0", "120.4/144.0", "78.8/10.5", "144.4/151.5", "282.8/198.2",
        "108.6/187.9"}},
      {"H100-4x8 AG",
       H100(4),
       all_gather,
       {"-", "-", "-", "42.7/21.1", "79.2/303.1", "145.6/396.4", "-"}},
      {"H100-16x8 AR",
       H100(16),
       all_reduce,
       {"55.2/10.2", "99.5/116.0", "176.4/144.0", "311.6/10.3", "559.6/148.0", "1190.0/193.5",
        "192.2/183.4"}},
      {"H100-16x8 AG",
       H100(16),
       all_gather,
       {"-", "-", "-", "159.1/20.6", "286.8/295.9", "599.2/387.0", "-"}},
      {"A100-1x8 AR",
       A100(1),
       all_reduce,
       {"15.2/29.1", "31.5/85.9", "64.4/110.4", "15.0/50.1", "40.6/126.2", "56.0/137.1", "-"}},
      {"A100-1x8 AG",
       A100(1),
       all_gather,
       {"-", "-", "-", "10.8/100.2", "27.3/252.3", "32.2/274.3", "-"}},
      {"A100-4x8 AR",
       A100(4),
       all_reduce,
       {"35.2/9.5", "65.5/66.8", "120.4/71.2", "134.8/9.8", "150.0/82.6", "428.4/99.1", "-"}},
      {"A100-4x8 AG",
       A100(4),
       all_gather,
       {"-", "-", "-", "70.7/19.6", "82.0/165.2", "218.4/198.2", "-"}},
  };
}

TEST(CommunicatorModelTest, LatenciesAndBandwidths) {
  for (const TableCase& test : TableCases()) {
    const CommunicatorModel model(test.communicator);
    const auto cell = [&](Algorithm algorithm, Protocol protocol) -> std::string {
      const double bandwidth = model.bandwidth(test.function, algorithm, protocol);
      if (bandwidth == 0) return "-";
      return fmt::format("{:.1f}/{:.1f}", model.latency(test.function, algorithm, protocol),
                         bandwidth);
    };
    std::vector<std::string> cells;
    for (Algorithm algorithm : {Algorithm::kTree, Algorithm::kRing}) {
      for (Protocol protocol : kProtocols) cells.push_back(cell(algorithm, protocol));
    }
    cells.push_back(cell(test.communicator.nodes == 1 ? Algorithm::kNvls : Algorithm::kNvlsTree,
                         Protocol::kSimple));
    EXPECT_EQ(cells, test.cells) << test.name;
  }
}

std::string Chosen(const CommunicatorModel& model, Function function, Bytes bytes) {
  const std::optional<Choice> choice = model.Choose({.function = function, .bytes = bytes});
  if (!choice) return "none";
  const bool one_protocol =
      choice->algorithm == Algorithm::kNvls || choice->algorithm == Algorithm::kNvlsTree;
  return fmt::format("{}{}{} {:.2f}", Name(choice->algorithm), one_protocol ? "" : " ",
                     one_protocol ? "" : Name(choice->protocol), choice->predicted_time);
}

// --- Choices and predicted times in us, for the same. For example H100, one node, all-reduce of 2
// MiB: NVLS 25 + 2097152 / 272000 = 32.71, before Ring LL 15.0 + 2097152 / 80571 = 41.03.
TEST(CommunicatorModelTest, Choices) {
  const CommunicatorModel h100(H100(1));
  const CommunicatorModel h100_2(H100(2));
  const CommunicatorModel h100_4(H100(4));
  const CommunicatorModel a100(A100(1));
  const CommunicatorModel a100_4(A100(4));
  struct Row {
    Bytes bytes;
    std::vector<std::string> chosen;
  };
  const std::vector<Row> rows = {
      {KiB(1),
       {"Ring LL 15.01", "Ring LL 10.81", "Tree LL 25.26", "Tree LL 35.31", "Ring LL 15.02",
        "Tree LL 35.32"}},
      {KiB(64),
       {"Ring LL 15.81", "Ring LL 11.21", "Tree LL 30.80", "Tree LL 45.91", "Ring LL 16.31",
        "Tree LL 46.70"}},
      {KiB(256),
       {"Ring LL 18.25", "Ring LL 12.43", "Tree LL128 51.48", "Tree LL128 69.27", "Ring LL 20.23",
        "Tree LL128 72.05"}},
      {MiB(1),
       {"Ring LL 28.01", "Ring LL 17.31", "Tree LL128 60.40", "Tree LL128 80.57", "Ring LL 35.92",
        "Tree LL128 91.68"}},
      {MiB(2),
       {"NVLS 32.71", "Ring LL 23.81", "Tree LL128 72.31", "Tree LL128 95.63", "Ring LL 56.85",
        "Tree LL128 117.86"}},
      {MiB(4),
       {"NVLS 40.42", "Ring LL 36.83", "NVLSTree 83.84", "Tree LL128 110.70", "Ring LL128 73.84",
        "Tree LL128 144.05"}},
      {MiB(16),
       {"NVLS 86.68", "Ring LL128 71.62", "NVLSTree 134.95", "NVLSTree 197.90", "Ring LL128 173.57",
        "Tree LL128 344.77"}},
      {MiB(32),
       {"NVLS 148.36", "Ring Simple 113.76", "NVLSTree 203.10", "NVLSTree 287.20",
        "Ring Simple 300.67", "Ring LL128 556.32"}},
      {MiB(128),
       {"NVLS 518.45", "Ring Simple 358.42", "NVLSTree 611.99", "NVLSTree 823.01",
        "Ring Simple 1034.67", "Ring LL128 1775.29"}},
      {MiB(512),
       {"NVLS 1998.79", "Ring Simple 1337.09", "NVLSTree 2247.55", "NVLSTree 2966.26",
        "Ring Simple 3970.68", "Ring Simple 6017.40"}},
      {GiB(1),
       {"NVLS 3972.58", "Ring Simple 2641.99", "NVLSTree 4428.29", "Ring Simple 5813.56",
        "Ring Simple 7885.37", "Ring Simple 11435.05"}},
      {GiB(8),
       {"NVLS 31605.64", "Ring Simple 20910.51", "NVLSTree 34958.76", "Ring Simple 43737.06",
        "Ring Simple 62690.94", "Ring Simple 87282.04"}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ((std::vector<std::string>{Chosen(h100, Function::kAllReduce, row.bytes),
                                        Chosen(h100, Function::kAllGather, row.bytes),
                                        Chosen(h100_2, Function::kAllReduce, row.bytes),
                                        Chosen(h100_4, Function::kAllReduce, row.bytes),
                                        Chosen(a100, Function::kAllReduce, row.bytes),
                                        Chosen(a100_4, Function::kAllReduce, row.bytes)}),
              row.chosen)
        << row.bytes.count() << " bytes";
  }
}

// Measured choices of NCCL 2.27.7 for an all-reduce of 8 GiB on some of the eight GPUs of a node
// (stas00/ml-engineering, network/README.md): H200 rings with 4 GPUs, NVLS from 5 on; B200 rings
// with 4 and 5, NVLS from 6 on. Computed from the hardware alone, including graphs.
TEST(CommunicatorModelTest, MeasuredChoicesOf2_27) {
  const auto chosen = [](const Node& node) {
    const CommunicatorModel model(MakeCommunicator(node, 1, Version::kV227));
    return std::string(
        Name(model.Choose({.function = Function::kAllReduce, .bytes = GiB(8)})->algorithm));
  };
  std::vector<std::string> h200;
  std::vector<std::string> b200;
  for (int gpus = 4; gpus <= 8; ++gpus) {
    h200.push_back(chosen(DgxH100(gpus)));
    b200.push_back(chosen(DgxB200(gpus)));
  }
  EXPECT_EQ(h200, (std::vector<std::string>{"Ring", "NVLS", "NVLS", "NVLS", "NVLS"}));
  EXPECT_EQ(b200, (std::vector<std::string>{"Ring", "Ring", "NVLS", "NVLS", "NVLS"}));
}

// 2.30 rates NVLS differently: n channels of min(2 x bw x efficiency x (n - 1) / n, inter) GB/s on
// the bus, against 360 for the rings of H200 and 720 for B200.
//  H200  5 GPUs: 5 x min(2 x 60 x 0.85 x 4/5, 60) = 300
//        6 GPUs: 6 x min(2 x 50 x 0.85 x 5/6, 60) = 360, as much as the ring but with 25 us of
//        latency instead of 42.4
//  B200  7 GPUs: 7 x min(2 x 90 x 0.74 x 6/7, 90) = 630
//        8 GPUs: 8 x min(2 x 80 x 0.74 x 7/8, 90) = 720
TEST(CommunicatorModelTest, LaterReleasesNeedMoreGpusForNvls) {
  const auto chosen = [](const Node& node) {
    const CommunicatorModel model(MakeCommunicator(node, 1, Version::kV230));
    return model.Choose({.function = Function::kAllReduce, .bytes = GiB(8)})->algorithm;
  };
  EXPECT_EQ(chosen(DgxH100(5)), Algorithm::kRing);
  EXPECT_EQ(chosen(DgxH100(6)), Algorithm::kNvls);
  EXPECT_EQ(chosen(DgxB200(7)), Algorithm::kRing);
  EXPECT_EQ(chosen(DgxB200(8)), Algorithm::kNvls);
}

TEST(CommunicatorModelTest, OneRankCopies) {
  Communicator alone = H100(1);
  alone.ranks = alone.most_local_ranks = 1;
  const CommunicatorModel model(alone);
  for (Function function : kFunctions) {
    const std::optional<Choice> choice = model.Choose({.function = function, .bytes = MiB(1)});
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->algorithm, Algorithm::kRing);
    EXPECT_EQ(choice->protocol, Protocol::kSimple);
    EXPECT_EQ(choice->predicted_time, 0);
  }
}

// Only all-reduce, all-gather and reduce-scatter have algorithms other than rings.
TEST(CommunicatorModelTest, BroadcastsAreRings) {
  const CommunicatorModel model(H100(2));
  for (Function function : {Function::kBroadcast, Function::kReduce}) {
    for (Algorithm algorithm : kAlgorithms) {
      EXPECT_EQ(model.bandwidth(function, algorithm, Protocol::kSimple) > 0,
                algorithm == Algorithm::kRing);
    }
  }
  // Not the same channels: 16 steps of the tree's hop over the network, 14; bandwidth 384 x 16
  // / 16.
  EXPECT_DOUBLE_EQ(model.latency(Function::kBroadcast, Algorithm::kRing, Protocol::kSimple),
                   8.4 + 16 * 14);
  EXPECT_DOUBLE_EQ(model.bandwidth(Function::kBroadcast, Algorithm::kRing, Protocol::kSimple), 384);
}

TEST(CommunicatorModelTest, Ll128NeedsNearCardsAndGpusOfOneKind) {
  const auto uses_ll128 = [](const Communicator& communicator) {
    return CommunicatorModel(communicator)
               .bandwidth(Function::kAllReduce, Algorithm::kRing, Protocol::kLl128) > 0;
  };
  Communicator hopper = H100(2);
  EXPECT_TRUE(uses_ll128(hopper));
  hopper.graphs.ring.type_inter = PathType::kPxn;
  EXPECT_TRUE(uses_ll128(hopper));
  hopper.graphs.ring.type_inter = PathType::kPhb;
  EXPECT_FALSE(uses_ll128(hopper));

  Communicator ampere = A100(4);
  ampere.graphs.ring.type_inter = PathType::kPxb;
  EXPECT_TRUE(uses_ll128(ampere));
  ampere.graphs.ring.type_inter = PathType::kPxn;
  EXPECT_FALSE(uses_ll128(ampere));

  Communicator pcie = H100(1);
  pcie.graphs.ring.type_intra = PathType::kPix;
  EXPECT_FALSE(uses_ll128(pcie));

  Communicator mixed = A100(1);
  mixed.max_compute_capability = 90;
  EXPECT_FALSE(uses_ll128(mixed));
  mixed.min_compute_capability = 90;
  mixed.max_compute_capability = 100;
  EXPECT_TRUE(uses_ll128(mixed));
}

TEST(CommunicatorModelTest, TheUserMayInsistOnLl128) {
  Communicator far = A100(4);
  far.graphs.ring.type_inter = PathType::kSys;
  Overrides overrides;
  overrides.protocols = *ParseProtocols("LL128", {});
  const CommunicatorModel model(far, overrides);
  EXPECT_EQ(Chosen(model, Function::kAllGather, KiB(1)).substr(0, 10), "Ring LL128");
}

TEST(CommunicatorModelTest, TheUserExcludes) {
  Overrides overrides;
  overrides.algorithms = *ParseAlgorithms("^nvls;allgather:tree", {});
  const CommunicatorModel model(H100(1), overrides);
  // Without NVLS: Ring Simple 56.0 + 2^30 / 205714.
  EXPECT_EQ(Chosen(model, Function::kAllReduce, GiB(1)), "Ring Simple 5275.58");
  EXPECT_EQ(Chosen(model, Function::kAllGather, GiB(1)), "none");
}

TEST(CommunicatorModelTest, LongRingsOfEightBitNumbersAreTheLastResort) {
  const CommunicatorModel model(H100(2));
  Collective collective{.function = Function::kAllReduce, .bytes = GiB(8), .fp8 = true};
  EXPECT_EQ(model.Choose(collective)->algorithm, Algorithm::kNvlsTree);
  collective.function = Function::kAllGather;  // has nothing but rings
  EXPECT_EQ(model.Choose(collective)->algorithm, Algorithm::kRing);
  EXPECT_EQ(model.Choose(collective)->predicted_time,
            *model.PredictedTime(collective, Algorithm::kRing, Protocol::kSimple));
  // Eight ranks are few enough.
  const CommunicatorModel small(A100(1));
  collective.function = Function::kAllReduce;
  EXPECT_EQ(small.Choose(collective)->algorithm, Algorithm::kRing);
}

// One GPU per node, 4 nodes. PAT: 8 + 2 levels x 14 / 3.5 + 4 x 2.8 = 27.2 us.
TEST(CommunicatorModelTest, PatIsForOneGpuANode) {
  Communicator communicator = H100(4);
  communicator.ranks = 4;
  communicator.most_local_ranks = 1;
  const CommunicatorModel model(communicator);
  EXPECT_DOUBLE_EQ(model.latency(Function::kAllGather, Algorithm::kPat, Protocol::kSimple), 27.2);
  // 8 x 48 x 0.75, of the bus and of the algorithm alike.
  EXPECT_DOUBLE_EQ(model.bandwidth(Function::kAllGather, Algorithm::kPat, Protocol::kSimple), 288);
  Collective scatter{.function = Function::kReduceScatter, .bytes = MiB(4)};
  EXPECT_TRUE(model.PredictedTime(scatter, Algorithm::kPat, Protocol::kSimple));
  scatter.scaled = true;
  EXPECT_FALSE(model.PredictedTime(scatter, Algorithm::kPat, Protocol::kSimple));

  communicator.version = Version::kV221;
  EXPECT_EQ(CommunicatorModel(communicator)
                .bandwidth(Function::kAllGather, Algorithm::kPat, Protocol::kSimple),
            0);
}

// With one GPU per node, rings wait for the network like trees: LL 5 instead of 2.7 us. Up to 2.21,
// LL128 then reached 0.70 of the bus: 8 x 24 x 0.7 x 4 / 6 = 89.6, later 0.92: 117.76 GB/s.
TEST(CommunicatorModelTest, OneGpuANode) {
  Communicator communicator = A100(4);
  communicator.ranks = 4;
  communicator.most_local_ranks = 1;
  const CommunicatorModel now(communicator);
  // 6 steps, all of them between nodes.
  EXPECT_DOUBLE_EQ(now.latency(Function::kAllReduce, Algorithm::kRing, Protocol::kLl), 6.6 + 6 * 5);
  EXPECT_NEAR(now.bandwidth(Function::kAllReduce, Algorithm::kRing, Protocol::kLl128),
              8 * 20 * 4.0 / 6, 1e-9);
  communicator.version = Version::kV221;
  EXPECT_NEAR(CommunicatorModel(communicator)
                  .bandwidth(Function::kAllReduce, Algorithm::kRing, Protocol::kLl128),
              8 * 24 * 0.7 * 4 / 6, 1e-9);
}

// Differences between releases, in GB/s and us.
TEST(CommunicatorModelTest, Releases) {
  const auto nvls = [](Version version, int nodes, Function function, Algorithm algorithm) {
    return CommunicatorModel(H100(nodes, version))
        .bandwidth(function, algorithm, Protocol::kSimple);
  };
  // Until 2.27: 8 x min(40, 60) x 5/6; from 2.28 on as in the tables above.
  EXPECT_NEAR(nvls(Version::kV223, 1, Function::kAllReduce, Algorithm::kNvls), 266.67, 0.005);
  EXPECT_NEAR(nvls(Version::kV227, 1, Function::kAllReduce, Algorithm::kNvls), 266.67, 0.005);
  EXPECT_NEAR(nvls(Version::kV228, 1, Function::kAllReduce, Algorithm::kNvls), 272.00, 0.005);
  // All-gather: 8 x 40; 2.27: 8 x min(40 x 7/8, 60 x 0.9).
  EXPECT_NEAR(nvls(Version::kV223, 1, Function::kAllGather, Algorithm::kNvls), 320, 0.005);
  EXPECT_NEAR(nvls(Version::kV227, 1, Function::kAllGather, Algorithm::kNvls), 280, 0.005);
  // NVLSTree: two nodes 8 x min(40, 48) x 5/6, four 8 x min(40, 24) x 5/6.
  EXPECT_NEAR(nvls(Version::kV227, 2, Function::kAllReduce, Algorithm::kNvlsTree), 266.67, 0.005);
  EXPECT_NEAR(nvls(Version::kV227, 4, Function::kAllReduce, Algorithm::kNvlsTree), 160, 0.005);

  const auto latency = [](Version version, Algorithm algorithm) {
    return CommunicatorModel(H100(2, version))
        .latency(Function::kAllReduce, algorithm, Protocol::kSimple);
  };
  // 8.4 + 2 x (7 + 1) x 28 against 8.4 + 2 x (7 x 4 + 14).
  EXPECT_DOUBLE_EQ(latency(Version::kV221, Algorithm::kTree), 456.4);
  EXPECT_DOUBLE_EQ(latency(Version::kV223, Algorithm::kTree), 92.4);
  // 25 + 2 x 14 against 25 + 2 x 20.9.
  EXPECT_DOUBLE_EQ(latency(Version::kV227, Algorithm::kNvlsTree), 53);
  EXPECT_DOUBLE_EQ(latency(Version::kV228, Algorithm::kNvlsTree), 66.8);
}

// Ten collectives launched as one wait ten times in a ring and once in a tree; eleven wait twice.
TEST(CommunicatorModelTest, LaunchesTogetherWait) {
  const CommunicatorModel model(H100(1));
  const auto time = [&](int operations, Algorithm algorithm) {
    return *model.PredictedTime(
        {.function = Function::kAllReduce, .bytes = Bytes(0), .operations = operations}, algorithm,
        Protocol::kLl);
  };
  EXPECT_DOUBLE_EQ(time(10, Algorithm::kRing), 10 * time(1, Algorithm::kRing));
  EXPECT_DOUBLE_EQ(time(10, Algorithm::kTree), time(1, Algorithm::kTree));
  EXPECT_DOUBLE_EQ(time(11, Algorithm::kTree), 2 * time(1, Algorithm::kTree));
}

// H100, one node, 24 channels. Ring LL: a thread is worth 8 x 8 B per channel, 512 threads 32 KiB.
// 1 KiB leaves one channel, and 512, 256, 128, 64 threads need 32 KiB .. 4 KiB; 64 is not a
// multiple of 128, and 96 is the minimum. 1 MiB / 32 KiB = 32, so all 24.
TEST(CommunicatorModelTest, SmallMessagesTakeFewChannelsAndThreads) {
  const CommunicatorModel model(H100(1));
  const auto resources = [&](Bytes bytes, Algorithm algorithm, Protocol protocol) {
    const Choice choice = model.WithResources({.function = Function::kAllReduce, .bytes = bytes},
                                              algorithm, protocol);
    return std::pair(choice.channels, choice.threads);
  };
  using Pair = std::pair<int, int>;
  EXPECT_EQ(resources(KiB(1), Algorithm::kRing, Protocol::kLl), Pair(1, 96));
  EXPECT_EQ(resources(KiB(128), Algorithm::kRing, Protocol::kLl), Pair(4, 512));
  EXPECT_EQ(resources(MiB(1), Algorithm::kRing, Protocol::kLl), Pair(24, 512));
  // LL128: 640 x 8 B = 5 KiB a channel.
  EXPECT_EQ(resources(KiB(50), Algorithm::kRing, Protocol::kLl128), Pair(10, 640));
  // Simple: 512 x 64 B = 32 KiB a channel; one more warp keeps step.
  EXPECT_EQ(resources(KiB(320), Algorithm::kRing, Protocol::kSimple), Pair(10, 544));
  EXPECT_EQ(resources(MiB(64), Algorithm::kRing, Protocol::kSimple), Pair(24, 544));
  // Trees use all threads, NVLS all its channels.
  EXPECT_EQ(resources(KiB(1), Algorithm::kTree, Protocol::kLl), Pair(1, 640));
  EXPECT_EQ(resources(KiB(1), Algorithm::kNvls, Protocol::kSimple), Pair(16, 640));
}

// Rings of 12 GB/s or less in total run with 256 threads.
TEST(CommunicatorModelTest, SlowRingsTakeFewerThreads) {
  Communicator communicator = A100(1);
  communicator.graphs.ring.channels = 1;
  communicator.graphs.ring.bw_intra = communicator.graphs.ring.bw_inter = 12;
  const CommunicatorModel model(communicator);
  EXPECT_EQ(model
                .WithResources({.function = Function::kAllReduce, .bytes = GiB(1)},
                               Algorithm::kRing, Protocol::kSimple)
                .threads,
            256 + 32);
}

TEST(CommunicatorModelTest, CollNetWhereTheNetworkReduces) {
  Communicator communicator = H100(4);
  communicator.graphs.collnet_chain = NumbersOnly(Pattern::kTree, 8, 48, 48);
  communicator.graphs.collnet_direct = NumbersOnly(Pattern::kCollNetDirect, 8, 48, 48);
  const auto bandwidth = [&](Function function, Algorithm algorithm) {
    return CommunicatorModel(communicator).bandwidth(function, algorithm, Protocol::kSimple);
  };
  EXPECT_EQ(bandwidth(Function::kAllReduce, Algorithm::kCollNetDirect), 0);
  communicator.collnet = true;
  // 8 x 48 with a card for each GPU, 0.85 on Hopper, half as algorithm bandwidth.
  EXPECT_NEAR(bandwidth(Function::kAllReduce, Algorithm::kCollNetDirect), 163.2, 1e-9);
  EXPECT_NEAR(bandwidth(Function::kAllReduce, Algorithm::kCollNetChain), 192, 1e-9);
  // NVLS across nodes: 8 x min(59.5, 48) x 32 / 62.
  EXPECT_NEAR(bandwidth(Function::kAllReduce, Algorithm::kNvls), 384.0 * 32 / 62, 1e-9);
  EXPECT_EQ(bandwidth(Function::kAllGather, Algorithm::kCollNetDirect), 0);
  communicator.collnet_gathers = true;
  communicator.collnet_heads = 8;
  // 8 x min(48, 48 x 0.9).
  EXPECT_NEAR(bandwidth(Function::kAllGather, Algorithm::kCollNetDirect), 345.6, 1e-9);
  const CommunicatorModel model(communicator);
  // 2 x (3.7 + 7 x 0.4) + 31; 2 x 7 x 2.8 + 30.
  EXPECT_NEAR(model.latency(Function::kAllReduce, Algorithm::kCollNetDirect, Protocol::kSimple), 44,
              1e-9);
  EXPECT_NEAR(model.latency(Function::kAllReduce, Algorithm::kCollNetChain, Protocol::kSimple),
              69.2, 1e-9);
}

RC_GTEST_PROP(CommunicatorModelProperty, TheChoiceIsTheShortest, ()) {
  const Version version = *rc::gen::elementOf(std::vector(kVersions.begin(), kVersions.end()));
  const int nodes = *rc::gen::inRange(1, 20);
  const CommunicatorModel model(*rc::gen::arbitrary<bool>() ? H100(nodes, version)
                                                            : A100(nodes, version));
  const Collective collective{
      .function = *rc::gen::elementOf(std::vector(kFunctions.begin(), kFunctions.end())),
      .bytes = Bytes(*rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 34)),
      .operations = *rc::gen::inRange(1, 30)};
  const std::optional<Choice> choice = model.Choose(collective);
  RC_ASSERT(choice.has_value());
  for (Algorithm algorithm : kAlgorithms) {
    for (Protocol protocol : kProtocols) {
      const std::optional<double> time = model.PredictedTime(collective, algorithm, protocol);
      if (time) RC_ASSERT(*time >= choice->predicted_time);
    }
  }
  RC_ASSERT(choice->channels >= 1);
  RC_ASSERT(choice->threads >= 96);
  RC_ASSERT(choice->threads <= 640);
}

int Used(Function function, Protocol protocol, Bytes bytes, Version version = Version::kV230) {
  return ChannelsUsed({.function = function, .bytes = bytes}, Algorithm::kRing, protocol, 8, 24,
                      version);
}

// An all-reduce moves each byte twice, so a cell of 32 KiB of traffic is 16 KiB of data; with LL,
// which counts four times, 4 KiB. 64 KiB: 4 cells; with LL 16.
TEST(WorkChannelsTest, SmallMessagesMakeFewCells) {
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, Bytes(1)), 1);
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, KiB(16)), 1);
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, KiB(64)), 4);
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kLl, KiB(64)), 16);
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, MiB(64)), 24);
}

// A broadcast moves each byte once: 64 KiB are 2 cells. In an all-gather of 64 KiB, a rank has 8
// KiB, which count eight times: 2 cells of 4 KiB.
TEST(WorkChannelsTest, TrafficDependsOnTheFunction) {
  EXPECT_EQ(Used(Function::kBroadcast, Protocol::kSimple, KiB(64)), 2);
  EXPECT_EQ(Used(Function::kAllGather, Protocol::kSimple, KiB(64)), 2);
  EXPECT_EQ(Used(Function::kReduceScatter, Protocol::kSimple, KiB(64)), 2);
}

// Earlier releases have cells of half the size.
TEST(WorkChannelsTest, EarlierReleasesSpreadFarther) {
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, KiB(64), Version::kV228), 8);
}

TEST(WorkChannelsTest, CollNetUsesAll) {
  EXPECT_EQ(ChannelsUsed({.function = Function::kAllReduce, .bytes = KiB(1)},
                         Algorithm::kCollNetDirect, Protocol::kSimple, 8, 12, Version::kV230),
            12);
}

TEST(WorkChannelsTest, NothingToDoUsesNone) {
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, Bytes(0)), 0);
}

RC_GTEST_PROP(WorkChannelsProperty, NeverMoreThanChosen, ()) {
  const Collective collective{
      .function = *rc::gen::elementOf(std::vector(kFunctions.begin(), kFunctions.end())),
      .bytes = Bytes(*rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 34))};
  const int most = *rc::gen::inRange(1, 65);
  const int used =
      ChannelsUsed(collective, Algorithm::kRing,
                   *rc::gen::elementOf(std::vector(kProtocols.begin(), kProtocols.end())),
                   *rc::gen::inRange(2, 2000), most,
                   *rc::gen::elementOf(std::vector(kVersions.begin(), kVersions.end())));
  RC_ASSERT(used >= 1);
  RC_ASSERT(used <= most);
}

}  // namespace

}  // namespace stepcast::nccl
