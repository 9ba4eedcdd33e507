#include "src/network/link_set.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"

namespace stepcast::network {
namespace {

RC_GTEST_PROP(LinkSet, NumbersAreTheOrderOfFirstArrival, ()) {
  const int links = *rc::gen::inRange(1, 20);
  LinkSet set(links);
  // Emptied several times: earlier contents have no effect.
  const int times = *rc::gen::inRange(1, 4);
  for (int time = 0; time < times; ++time) {
    set.Clear();
    std::vector<int> came;
    for (const int link : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, links))) {
      const auto known = std::find(came.begin(), came.end(), link);
      const auto number = static_cast<std::uint32_t>(known - came.begin());
      if (known == came.end()) came.push_back(link);
      RC_ASSERT(set.Add(link) == number);
    }
    RC_ASSERT(set.links() == came);
  }
}

}  // namespace
}  // namespace stepcast::network
