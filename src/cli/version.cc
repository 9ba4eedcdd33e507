#include "src/cli/version.h"

#include <string_view>

#include "fmt/format.h"

namespace stepcast::cli {

std::string VersionText(const std::string& backends) {
  // Only releases state their commit; otherwise each commit would relink everything.
  constexpr std::string_view kCommit = STEPCAST_COMMIT;
  return fmt::format(
      "stepcast {}\ncommit   {}\nbackends {}\n", kVersion,
      kCommit.empty() ? "unknown, because stepcast was built from a checkout" : kCommit, backends);
}

}  // namespace stepcast::cli
