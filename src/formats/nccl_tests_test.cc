#include "src/formats/nccl_tests.h"

#include <cmath>

#include "gtest/gtest.h"
#include "src/base/nccl_tests_convention.h"

namespace stepcast::formats {
namespace {

// The format of recent releases.
constexpr std::string_view kRecent =
    "# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 1024 maxBytes 2048 step: 2(factor) warmup iters: 1 iters: 20\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   1001 on     node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1002 on     node-a device  1 [0000:2b:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid   1003 on     node-b device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid   1004 on     node-b device  1 [0000:2b:00] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place                   "
    "    in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
    "time "
    "  algbw   busbw  #wrong \n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
    "(us) "
    " (GB/s)  (GB/s)         \n"
    "        1024           256     float     sum      -1    20.00    0.05    0.08       0    "
    "21.00 "
    "   0.05    0.07       0\n"
    "        2048           512     float     sum      -1    24.00    0.09    0.13       0    "
    "25.00 "
    "   0.08    0.12       0\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 0.1 \n"
    "#\n"
    "# Collective test concluded: all_reduce_perf\n";

// The format of old releases: no header of the program, no root, an error instead of a count;
// all-gather leaves redop empty.
constexpr std::string_view kOld =
    "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: "
    "20 validation: 1 \n"
    "#\n"
    "# Using devices\n"
    "#   Rank  0 Pid   1320 on     node-a device  0 [0x1a] Tesla V100-SXM2-32GB\n"
    "#   Rank  1 Pid   1320 on     node-a device  1 [0x1c] Tesla V100-SXM2-32GB\n"
    "#\n"
    "#                                             out-of-place                       in-place\n"
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   "
    "busbw  error\n"
    "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
    "(GB/s)\n"
    "     1048576        131072   float            52.43   20.00   10.00  0e+00    52.43   20.00   "
    "10.00  1e-07\n"
    "     2097152        262144   float            104.9   20.00   10.00  0e+00    104.9   20.00   "
    "10.00  0e+00\n"
    "# Out of bounds values : 0 OK\n";

std::string Changed(std::string_view text, std::string_view what, std::string_view to) {
  std::string changed(text);
  changed.replace(changed.find(what), what.size(), to);
  return changed;
}

std::string CodeOf(std::string_view text) {
  const auto runs = ParseNcclTests(text, "run.log");
  return runs ? "none" : runs.error().front().code;
}

TEST(NcclTests, ReadsTheTableOfRecentReleases) {
  const auto runs = ParseNcclTests(kRecent, "run.log");
  ASSERT_TRUE(runs.has_value()) << Format(runs.error());
  ASSERT_EQ(runs->size(), 1u);
  const NcclTestsRun& run = runs->front();
  EXPECT_EQ(run.collective, CollectiveKind::kAllReduce);
  EXPECT_EQ(run.ranks, 4);
  EXPECT_EQ(run.hosts.size(), 2u);
  EXPECT_EQ(run.gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(run.tests_version, "2.17.1");
  EXPECT_EQ(run.nccl_version, "2.27.3");
  ASSERT_EQ(run.rows.size(), 2u);
  EXPECT_EQ(run.rows[1].size, Bytes(2048));
  EXPECT_EQ(run.rows[1].out_of_place, Microseconds(24));
  EXPECT_EQ(run.rows[1].in_place, Microseconds(25));
}

TEST(NcclTests, ReadsTheTableOfOldReleases) {
  const auto runs = ParseNcclTests(kOld, "run.log");
  ASSERT_TRUE(runs.has_value()) << Format(runs.error());
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_FALSE(runs->front().collective.has_value()) << "it is not told";
  EXPECT_EQ(runs->front().ranks, 2);
  ASSERT_EQ(runs->front().rows.size(), 2u);
  EXPECT_EQ(runs->front().rows[0].out_of_place, Nanoseconds(52'430));
}

TEST(NcclTests, ReadsColumnsThatNewReleasesAdd) {
  const auto runs = ParseNcclTests(
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw "
      "busbw #wrong i_min i_max i_p99 i_cv% timestamp\n"
      "[1,0]<stdout>: 1000000 250000 float sum -1 100.0 10.00 15.00 0 99.0 101.0 101.0 1.0 110.0 "
      "9.09 13.6 N/A 99.0 101.0 101.0 1.0 2026-01-31 12:00:00\n",
      "run.log");
  ASSERT_TRUE(runs.has_value()) << Format(runs.error());
  EXPECT_EQ(runs->front().rows[0].out_of_place, Microseconds(100));
  EXPECT_EQ(runs->front().rows[0].in_place, Microseconds(110));
}

TEST(NcclTests, SeveralRunsMayStandInOneFile) {
  const auto runs = ParseNcclTests(std::string(kRecent) + std::string(kOld), "run.log");
  ASSERT_TRUE(runs.has_value()) << Format(runs.error());
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ((*runs)[0].ranks, 4);
  EXPECT_EQ((*runs)[1].ranks, 2);
}

TEST(NcclTests, WrongResultsAndFailedRowsAreRefusedWhereTheyStand) {
  // The count of wrong results in the second row, out of place.
  const auto wrong = ParseNcclTests(Changed(kRecent, "0.13       0", "0.13       7"), "run.log");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().front().code, "nccl-tests.wrong-results");
  EXPECT_EQ(wrong.error().front().location.line, 15);
  EXPECT_EQ(CodeOf(Changed(kRecent, "0 OK", "3 FAILED")), "nccl-tests.wrong-results");
  EXPECT_EQ(CodeOf(Changed(kRecent, "    24.00", "     0.00")), "nccl-tests.bad-row");
  EXPECT_EQ(CodeOf(Changed(kRecent, "    24.00", "      nan")), "nccl-tests.bad-row");
  EXPECT_EQ(CodeOf(Changed(kRecent, "        2048 ", "     2048000 ")), "nccl-tests.bad-row")
      << "size over time is not the algbw beside it";
  EXPECT_EQ(CodeOf(kRecent.substr(0, kRecent.find("        1024 "))), "nccl-tests.cut-off");
  EXPECT_EQ(CodeOf(std::string(kRecent) +
                   "node-a: Test NCCL failure common.cu:961 'unhandled system error'\n"),
            "nccl-tests.failed");
  EXPECT_EQ(CodeOf(Changed(kRecent, "root     time", "root  cputime")), "nccl-tests.cpu-time");
  EXPECT_EQ(CodeOf("nothing of the kind\n"), "nccl-tests.no-table");
  // A row without a size, and a log line that only begins with a digit.
  EXPECT_EQ(CodeOf(Changed(kRecent, "        2048 ", "       2o48 ")), "nccl-tests.bad-row");
  EXPECT_EQ(CodeOf(Changed(kRecent, "        2048 ", "10:00:00 node-a NCCL INFO\n        2048 ")),
            "none");
}

constexpr std::string_view kJson =
    R"({"version":2,"start_time":"2026-01-31 12:00:00","args":["build/all_gather_perf","-b","1M"],)"
    R"("env":["HOME=/home/me","TOKEN=secret"],"nccl_version":22703,)"
    R"("config":{"nthreads":1,"ngpus":1,"devices":[{"rank":0,"hostname":"node-a",)"
    R"("device_info":"NVIDIA H100 80GB HBM3"},{"rank":1,"hostname":"node-a"}]},)"
    "\n"
    R"("results":[{"size":1000000,"count":125000,"type":"float","redop":"none","root":"-1",)"
    R"("out_of_place":{"time":100.0,"alg_bw":10.0,"bus_bw":5.0,"nwrong":0.0},)"
    R"("in_place":{"time":90.0,"alg_bw":11.1,"bus_bw":5.5,"nwrong":null}}],)"
    R"("out_of_bounds":{"count":0,"okay":"true"},"errors":[""],"end_time":"2026-01-31 12:00:09"})";

TEST(NcclTests, ReadsJson) {
  const auto runs = ParseNcclTests(kJson, "run.json");
  ASSERT_TRUE(runs.has_value()) << Format(runs.error());
  const NcclTestsRun& run = runs->front();
  EXPECT_EQ(run.collective, CollectiveKind::kAllGather);
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.hosts.size(), 1u);
  EXPECT_EQ(run.started, "2026-01-31 12:00:00");
  EXPECT_EQ(run.rows[0].in_place, Microseconds(90));
  EXPECT_EQ(CodeOf(kJson.substr(0, 300)), "file.not-json");
  EXPECT_EQ(CodeOf(Changed(kJson, "\"nwrong\":0.0", "\"nwrong\":2.0")), "nccl-tests.wrong-results");
  EXPECT_EQ(CodeOf("{\"results\":[]}"), "nccl-tests.cut-off");
  EXPECT_EQ(CodeOf("{\"results\":[22e1111111111111]}"), "file.not-json");
  EXPECT_EQ(CodeOf("{}"), "nccl-tests.no-table");
}

TEST(NcclTestsProfile, ATableIsTheMeanOverRuns) {
  auto runs = ParseNcclTests(kRecent, "logs/first.log");
  ASSERT_TRUE(runs.has_value());
  // A second run, slower by 4 us at 1 KiB and without the other size.
  NcclTestsRun second = runs->front();
  second.rows.resize(1);
  second.rows[0].out_of_place = Microseconds(24);
  second.location.file = "logs/second.log";
  runs->push_back(second);
  const auto imported = ProfileOf(*runs, {.name = "mine"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  ASSERT_EQ(imported->profile.collectives.size(), 1u);
  const calibration::CollectiveTable& table = imported->profile.collectives[0];
  EXPECT_EQ(table.ranks, 4);
  EXPECT_EQ(table.nodes, 2);
  ASSERT_EQ(table.points.size(), 2u);
  EXPECT_EQ(table.points[0].second, Microseconds(22));
  EXPECT_EQ(table.points[1].second, Microseconds(24));
}

// The GPU type from the names of all devices, or the given one.
TEST(NcclTestsProfile, SaysItsGpuType) {
  auto runs = ParseNcclTests(kRecent, "logs/first.log");
  ASSERT_TRUE(runs.has_value());
  const auto gpus = [&](const std::string& said) {
    const auto imported = ProfileOf(*runs, {.name = "mine", .gpu = said});
    EXPECT_TRUE(imported.has_value());
    return imported ? imported->profile.gpus : std::vector<std::string>{};
  };
  runs->front().gpu = "NVIDIA A100-SXM4-80GB";
  EXPECT_EQ(gpus(""), std::vector<std::string>{"a100-sxm-80gb"});
  EXPECT_EQ(gpus("mine"), std::vector<std::string>{"mine"});
  runs->front().gpu = "NVIDIA X100";
  EXPECT_EQ(gpus(""), std::vector<std::string>{});
}

TEST(NcclTestsProfile, WhatTheLogDoesNotTellMustBeGiven) {
  const auto runs = ParseNcclTests(kOld, "old.log");
  ASSERT_TRUE(runs.has_value());
  const auto unknown = ProfileOf(*runs, {.name = "mine"});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().front().code, "nccl-tests.no-collective");
  NcclTestsOptions options{.collective = CollectiveKind::kAllGather, .name = "mine"};
  const auto known = ProfileOf(*runs, options);
  ASSERT_TRUE(known.has_value()) << Format(known.error());
  EXPECT_EQ(known->profile.collectives[0].nodes, 1);
  options.ranks_per_node = 1;
  const auto spread = ProfileOf(*runs, options);
  ASSERT_TRUE(spread.has_value());
  EXPECT_EQ(spread->profile.collectives[0].nodes, 2);
  EXPECT_EQ(spread->notes.size(), 1u) << "the hosts say otherwise";
  options.ranks_per_node = 3;
  ASSERT_FALSE(ProfileOf(*runs, options).has_value());
}

// A killed run leaves whole rows without a summary.
TEST(NcclTestsProfile, ATableThatMayBeCutIsNoted) {
  const std::string_view cut = kRecent.substr(0, kRecent.find("# Out of bounds"));
  for (const std::string_view text : {kRecent, cut}) {
    const auto runs = ParseNcclTests(text, "run.log");
    ASSERT_TRUE(runs.has_value()) << Format(runs.error());
    const auto profile = ProfileOf(*runs, {});
    ASSERT_TRUE(profile.has_value()) << Format(profile.error());
    ASSERT_EQ(profile->notes.size(), text == cut ? 1u : 0u);
    if (text == cut) {
      EXPECT_EQ(profile->notes[0],
                "run.log: the table at line 12 ends without the summary of nccl-tests, so rows may "
                "be missing");
    }
  }
}

TEST(NcclTestsProfile, WhatCannotBeIsNamedByRow) {
  auto runs = ParseNcclTests(kRecent, "run.log");
  ASSERT_TRUE(runs.has_value());
  runs->front().rows[1].out_of_place = Microseconds(3);
  const auto imported = ProfileOf(*runs, {.name = "mine"});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error().front().code, "calibration.implausible");
  EXPECT_EQ(imported.error().front().location.line, 15);
}

// Prefixes of launchers and log collectors, alone and combined, with indentation.
TEST(NcclTests, ReadsTaggedLines) {
  const auto plain = ParseNcclTests(kRecent, "run.log");
  ASSERT_TRUE(plain.has_value());
  for (const std::string_view tag :
       {"[1,0]<stdout>:", "[1,0]<stdout>: ", "  [1,0]<stdout>:", "[job-7@1,0]<stdout>:", "0: ",
        "  ", "[pod/nccl-launcher-x2/main] ", "2026-01-31T12:00:00.123456789Z ",
        "2026-01-31T12:00:00Z [pod/launcher/main] [1,0]<stdout>:"}) {
    std::string tagged;
    std::string_view rest = kRecent;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n') + 1;
      tagged += std::string(tag) + std::string(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    const auto runs = ParseNcclTests(tagged, "run.log");
    ASSERT_TRUE(runs.has_value()) << tag << "\n" << Format(runs.error());
    ASSERT_EQ(runs->size(), 1u) << tag;
    EXPECT_EQ(runs->front().ranks, 4) << tag;
    EXPECT_EQ(runs->front().collective, CollectiveKind::kAllReduce) << tag;
    ASSERT_EQ(runs->front().rows.size(), 2u) << tag;
    EXPECT_EQ(runs->front().rows[1].out_of_place, plain->front().rows[1].out_of_place) << tag;
    EXPECT_TRUE(runs->front().concluded) << tag;
  }
}

// A log that ends within a row keeps the earlier rows; a short row before other rows is a mistake.
TEST(NcclTests, LeavesOutALastRowThatWasCut) {
  const std::string_view cut = kRecent.substr(0, kRecent.find("25.00"));
  const auto runs = ParseNcclTests(cut, "run.log");
  ASSERT_TRUE(runs.has_value()) << Format(runs.error());
  ASSERT_EQ(runs->front().rows.size(), 1u);
  EXPECT_TRUE(runs->front().cut);
  const auto profile = ProfileOf(*runs, {});
  ASSERT_TRUE(profile.has_value()) << Format(profile.error());
  EXPECT_EQ(profile->notes.front(),
            "run.log: the last row of the table at line 12 was ignored, because it is incomplete");
  EXPECT_EQ(CodeOf(Changed(kRecent, "21.00    0.05    0.07       0", "")), "nccl-tests.cut-off");
  EXPECT_EQ(CodeOf(kRecent.substr(0, kRecent.find("20.00"))), "nccl-tests.cut-off");
}

// 90,330 us for 10 GiB; busbw over algbw is 1.875 = 2 x 15 / 16.
TEST(NcclTestsProfile, DeducesTheCollectiveFromItsRows) {
  constexpr std::string_view kBare =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n"
      " 10737418240    2684354560     float     sum      -1    90330  118.87  222.88      0    "
      "91945  116.78  218.96      0\n";
  const auto runs = ParseNcclTests(kBare, "bare.log");
  ASSERT_TRUE(runs.has_value()) << Format(runs.error());
  const auto profile = ProfileOf(*runs, {.ranks_per_node = 8, .name = "mine"});
  ASSERT_TRUE(profile.has_value()) << Format(profile.error());
  const calibration::CollectiveTable& table = profile->profile.collectives.front();
  EXPECT_EQ(table.collective, CollectiveKind::kAllReduce);
  EXPECT_EQ(table.ranks, 16);
  EXPECT_EQ(table.nodes, 2);
  EXPECT_EQ(profile->notes[0],
            "bare.log: the log does not specify the collective of the table in line 1. Assumed "
            "from the columns redop and root and the ratio busbw/algbw: all_reduce");
  EXPECT_EQ(profile->notes[1],
            "bare.log: the log does not specify the number of ranks of the table in line 1. "
            "Assumed from the ratio busbw/algbw: 16 ranks");
  // All-gather and all-to-all print the same figures.
  const auto gathers =
      ParseNcclTests(Changed(Changed(kBare, "sum ", "none"), "222.88", "111.44"), "bare.log");
  const auto unclear = ProfileOf(*gathers, {.ranks_per_node = 8, .name = "mine"});
  ASSERT_FALSE(unclear.has_value());
  EXPECT_EQ(unclear.error().front().message,
            "the log does not specify the measured collective; possible collectives: all_gather, "
            "all_to_all");
}

// 24 us after 40: both get their mean, 32.
TEST(NcclTestsProfile, KeepsNoiseIfAskedTo) {
  auto runs = ParseNcclTests(kRecent, "run.log");
  ASSERT_TRUE(runs.has_value());
  runs->front().rows[0].out_of_place = Microseconds(40);
  const auto refused = ProfileOf(*runs, {.name = "mine"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().front().hint.find("--keep-noise"), std::string::npos);
  const auto kept = ProfileOf(*runs, {.keep_noise = true, .name = "mine"});
  ASSERT_TRUE(kept.has_value()) << Format(kept.error());
  for (const auto& [size, time] : kept->profile.collectives.front().points) {
    EXPECT_EQ(time, Microseconds(32));
  }
  EXPECT_EQ(kept->notes.back(),
            "all_reduce over 4 ranks: 2 of 2 times were longer than times of larger sizes, and "
            "were averaged with these times");
}

using Kinds = std::vector<CollectiveKind>;
using enum CollectiveKind;

// algbw of 100 GB/s, and busbw as nccl-tests prints it.
NcclTestsTraits Traits(bool reduces, bool rooted, CollectiveKind kind, int ranks) {
  return {.reduces = reduces,
          .rooted = rooted,
          .algbw = 100,
          .busbw = std::round(10'000 * BusFactor(kind, ranks)) / 100};
}

TEST(DeduceCollective, ByReductionRootAndBusFactor) {
  for (const int ranks : {2, 3, 8, 16, 64}) {
    const auto kinds = [&](bool reduces, bool rooted, CollectiveKind kind) {
      return DeduceCollective(Traits(reduces, rooted, kind, ranks), ranks).kinds;
    };
    EXPECT_EQ(kinds(true, false, kAllReduce), Kinds{kAllReduce}) << ranks;
    EXPECT_EQ(kinds(true, false, kReduceScatter), Kinds{kReduceScatter}) << ranks;
    EXPECT_EQ(kinds(true, true, kReduce), Kinds{kReduce}) << ranks;
    EXPECT_EQ(kinds(false, false, kSendRecv), Kinds{kSendRecv}) << ranks;
    EXPECT_EQ(kinds(false, true, kBroadcast), Kinds{kBroadcast}) << ranks;
    // Each of these pairs prints the same figures.
    EXPECT_EQ(kinds(false, false, kAllGather), (Kinds{kAllGather, kAllToAll})) << ranks;
    EXPECT_EQ(kinds(false, true, kScatter), (Kinds{kScatter, kGather})) << ranks;
  }
}

// 441.85 over 235.65 GB/s is 1.875, 2 x 15 / 16.
TEST(DeduceCollective, TellsTheRanksAsWell) {
  const DeducedCollective all_reduce =
      DeduceCollective({.reduces = true, .rooted = false, .algbw = 235.65, .busbw = 441.85}, 0);
  EXPECT_EQ(all_reduce.kinds, Kinds{kAllReduce});
  EXPECT_EQ(all_reduce.ranks, 16);
  // A ratio of 1.00 fits two ranks, or a reduce-scatter over very many.
  const auto one = DeduceCollective({.reduces = true, .rooted = false, .algbw = 9, .busbw = 9}, 0);
  EXPECT_EQ(one.kinds, (Kinds{kAllReduce, kReduceScatter}));
  EXPECT_EQ(one.ranks, 0);
  // Two digits do not distinguish 500 from 510.
  const auto many =
      DeduceCollective({.reduces = true, .rooted = false, .algbw = 1.00, .busbw = 1.99}, 0);
  EXPECT_EQ(many.kinds, Kinds{kAllReduce});
  EXPECT_EQ(many.ranks, 0);
}

TEST(DeduceCollective, SaysNothingWithoutColumns) {
  EXPECT_TRUE(DeduceCollective({}, 8).kinds.empty());
  // A ratio that no collective can have.
  EXPECT_TRUE(DeduceCollective({.reduces = true, .rooted = false, .algbw = 100, .busbw = 300}, 8)
                  .kinds.empty());
}

}  // namespace

}  // namespace stepcast::formats
