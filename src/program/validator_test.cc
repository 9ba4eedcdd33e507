#include "src/program/validator.h"

#include <vector>

#include "gtest/gtest.h"
#include "src/program/program.h"
#include "tests/examples/test_program.h"

namespace stepcast::program {
namespace {

using Kind = ViolationKind;

std::vector<Kind> Kinds(const TestProgram& test) {
  std::vector<Kind> kinds;
  for (const Violation& violation : Validate(test.program())) kinds.push_back(violation.kind);
  return kinds;
}

TEST(ValidatorTest, AnEmptyProgramIsSound) { EXPECT_EQ(Validate(Program()).size(), 0u); }

// Races cannot be checked for operations with invalid references.
TEST(ValidatorTest, RacesAreLookedForWhereAllIndicesAreRight) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", Bytes(64));
  test.Allocate(0, x).Step();
  test.Kernel(0, "write", {test.Write(x)}).Kernel(1, "overwrite", {test.Write(x)});
  EXPECT_EQ(Kinds(test), std::vector<Kind>(2, Kind::kRace));  // and with the step before
  test.Add(Opcode::kKernel, 0, 7);
  EXPECT_EQ(Kinds(test), std::vector<Kind>{Kind::kIndex});
}

}  // namespace
}  // namespace stepcast::program
