#include "src/runtime/mpi_failure.h"

#include <mpi.h>

#include <cstddef>

#include "fmt/format.h"

namespace stepcast::runtime {

Attempt<void> CheckMpi(int code, std::string_view doing) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return tl::unexpected(Failure{fmt::format(
      "MPI cannot {}: {}", doing, std::string_view(text, static_cast<std::size_t>(length)))});
}

}  // namespace stepcast::runtime
