#include "src/engine/memory_ledger.h"

#include <vector>

#include "gtest/gtest.h"

namespace stepcast::engine {
namespace {

std::vector<Bytes> AtPeak(const MemoryLedger& ledger) {
  return {ledger.at_peak().begin(), ledger.at_peak().end()};
}

TEST(MemoryLedgerTest, CountsByCategory) {
  MemoryLedger ledger(2);
  ledger.Allocate(0, Bytes(100));
  ledger.Allocate(1, Bytes(30));
  ledger.Release(0, Bytes(60));
  EXPECT_EQ(ledger.in_use(0), Bytes(40));
  EXPECT_EQ(ledger.in_use(1), Bytes(30));
  EXPECT_EQ(ledger.total(), Bytes(70));
}

TEST(MemoryLedgerTest, PeakKeepsWhatWasInUseThen) {
  MemoryLedger ledger(3);
  ledger.Allocate(0, Bytes(10));
  ledger.Allocate(1, Bytes(50));  // 60: the peak
  ledger.Release(1, Bytes(50));
  ledger.Allocate(2, Bytes(40));  // 50
  EXPECT_EQ(ledger.peak(), Bytes(60));
  EXPECT_EQ(AtPeak(ledger), (std::vector<Bytes>{Bytes(10), Bytes(50), Bytes(0)}));
}

TEST(MemoryLedgerTest, OfEqualPeaksTheFirstCounts) {
  MemoryLedger ledger(2);
  ledger.Allocate(0, Bytes(8));
  ledger.Release(0, Bytes(8));
  ledger.Allocate(1, Bytes(8));
  EXPECT_EQ(AtPeak(ledger), (std::vector<Bytes>{Bytes(8), Bytes(0)}));
}

TEST(MemoryLedgerDeathTest, ReleaseOfMoreThanIsInUseIsABug) {
  MemoryLedger ledger(1);
  ledger.Allocate(0, Bytes(1));
  EXPECT_DEATH(ledger.Release(0, Bytes(2)), "only what is in use");
}

}  // namespace
}  // namespace stepcast::engine
