#include "src/nccl/overrides.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::nccl {
namespace {

const Location kLocation{.file = "job.yaml", .line = 7, .column = 12};

std::vector<std::string> Allowed(const AllowedAlgorithms& allowed, Function function) {
  std::vector<std::string> names;
  for (Algorithm algorithm : kAlgorithms) {
    if (allowed.allows(function, algorithm)) names.emplace_back(Name(algorithm));
  }
  return names;
}

TEST(OverridesTest, NothingSaidAllowsAll) {
  const Result<AllowedAlgorithms> allowed = ParseAlgorithms("", kLocation);
  ASSERT_TRUE(allowed);
  EXPECT_TRUE(allowed->is_default(Function::kAllReduce));
  EXPECT_EQ(Allowed(*allowed, Function::kAllReduce).size(), kAlgorithms.size());
}

// The first example of NCCL's own description of the syntax.
TEST(OverridesTest, ListsForFunctionsReplaceTheListForAll) {
  const Result<AllowedAlgorithms> allowed =
      ParseAlgorithms("ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring", kLocation);
  ASSERT_TRUE(allowed);
  using Names = std::vector<std::string>;
  EXPECT_EQ(Allowed(*allowed, Function::kAllGather), (Names{"Ring", "CollNetDirect"}));
  EXPECT_EQ(Allowed(*allowed, Function::kAllReduce), (Names{"Tree", "CollNetDirect"}));
  EXPECT_EQ(Allowed(*allowed, Function::kBroadcast), (Names{"Ring"}));
}

TEST(OverridesTest, ACaretMeansAllButThese) {
  const Result<AllowedProtocols> allowed = ParseProtocols("^LL128;allreduce:LL128", kLocation);
  ASSERT_TRUE(allowed);
  EXPECT_TRUE(allowed->allows(Function::kBroadcast, Protocol::kLl));
  EXPECT_FALSE(allowed->allows(Function::kBroadcast, Protocol::kLl128));
  EXPECT_TRUE(allowed->allows(Function::kBroadcast, Protocol::kSimple));
  EXPECT_FALSE(allowed->allows(Function::kAllReduce, Protocol::kLl));
  EXPECT_TRUE(allowed->allows(Function::kAllReduce, Protocol::kLl128));
}

TEST(OverridesTest, AFunctionThatIsNotNamedKeepsTheDefault) {
  const Result<AllowedProtocols> allowed = ParseProtocols("allreduce:Simple", kLocation);
  ASSERT_TRUE(allowed);
  EXPECT_FALSE(allowed->is_default(Function::kAllReduce));
  EXPECT_TRUE(allowed->is_default(Function::kAllGather));
}

// Columns: the value begins at 12; "rings" 4 further on, "allreduces" 10, "tree" 27.
TEST(OverridesTest, AllMistakesAreReportedWhereTheyStand) {
  const Result<AllowedAlgorithms> allowed =
      ParseAlgorithms("pat,rings;allreduces:nvls;tree", kLocation);
  ASSERT_FALSE(allowed);
  ASSERT_EQ(allowed.error().size(), 3u);
  EXPECT_EQ(
      Format(allowed.error()),
      "job.yaml:7:16: error[nccl.unknown-algorithm]: no such algorithm: 'rings'\n  hint: write one "
      "of Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT\njob.yaml:7:22: "
      "error[nccl.unknown-function]: no such function: 'allreduces'\n  hint: write one of "
      "Broadcast, Reduce, AllGather, ReduceScatter, AllReduce\njob.yaml:7:38: "
      "error[nccl.list-without-function]: every list after the first list must begin with a "
      "function, such as allreduce: 'tree'\n  hint: write allreduce:tree\n");
}

TEST(OverridesTest, AProtocolIsNoAlgorithm) {
  const Result<AllowedProtocols> allowed = ParseProtocols("^ring", kLocation);
  ASSERT_FALSE(allowed);
  EXPECT_EQ(Format(allowed.error()),
            "job.yaml:7:13: error[nccl.unknown-protocol]: no such protocol: 'ring'\n"
            "  hint: write one of LL, LL128, Simple\n");
}

}  // namespace
}  // namespace stepcast::nccl
