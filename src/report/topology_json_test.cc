#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "src/report/dumps.h"
#include "src/topology/node_type.h"

namespace stepcast::report {
namespace {

TEST(TopologyJson, DescribesAFlatCluster) {
  topology::FlatCluster flat;
  flat.devices = 4;
  flat.memory = GiB(80);
  flat.link = topology::LinkSpec{.latency = Microseconds(5),
                                 .bandwidth = Bandwidth::GigabytesPerSecond(25)};
  const auto json = nlohmann::json::parse(TopologyJson("four", topology::Cluster(flat)));
  EXPECT_EQ(json["stepcast"], 1);
  EXPECT_EQ(json["topology"], "four");
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["nodes"], 4);
  EXPECT_TRUE(json["gpu"].is_null());
  EXPECT_EQ(json["link"]["bandwidth_bytes_per_s"], 25'000'000'000);
  EXPECT_EQ(json["ring"]["ring_bandwidth_bytes_per_s"], 25'000'000'000);
  EXPECT_FALSE(json.contains("links"));
}

}  // namespace
}  // namespace stepcast::report
