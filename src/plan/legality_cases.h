#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/plan/legality.h"

// Helpers for tests of the legality rules.
namespace stepcast::plan {

// Returns a legal request, of which each test case changes one setting.
inline Request Legal() {
  Request request;
  request.sequence_length = 1024;
  request.micro_batch_size = 2;
  request.gradient_accumulation = 4;
  request.precision = DataType::kBf16;
  request.optimizer = Optimizer::kAdamW;
  request.zero_stage = 0;
  request.framework = Framework::kReference;
  return request;
}

inline const model::Lora kAdapters{.rank = 4, .targets = {.linear_qkv = true}};

inline Facts EightDevices() {
  Facts facts;
  facts.devices = 8;
  facts.max_positions = 1024;
  facts.layers = 128;
  facts.device = "a100-sxm-40gb";
  facts.without_peak[static_cast<std::size_t>(DataType::kFp8)] = true;
  return facts;
}

// A change that makes the request break exactly one rule.
struct Case {
  std::function<void(Request&)> change;
  std::string key;
  std::string code;
  std::string message;
};

inline void ExpectEach(std::span<const Case> cases) {
  for (const Case& bad : cases) {
    Request request = Legal();
    bad.change(request);
    const std::vector<Violation> violations = Check(request, EightDevices());
    ASSERT_EQ(violations.size(), 1u) << bad.message;
    EXPECT_EQ(violations[0].key, bad.key);
    EXPECT_EQ(violations[0].code, bad.code);
    EXPECT_EQ(violations[0].message, bad.message);
    EXPECT_FALSE(violations[0].hint.empty());
  }
}

}  // namespace stepcast::plan
