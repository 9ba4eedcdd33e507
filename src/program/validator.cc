#include "src/program/validator.h"

#include "src/program/index_check.h"
#include "src/program/race_check.h"

namespace stepcast::program {

std::vector<Violation> Validate(const Program& program) {
  const std::vector<Violation> wrong_indices = CheckIndices(program);
  return wrong_indices.empty() ? CheckRaces(program) : wrong_indices;
}

}  // namespace stepcast::program
