#pragma once

#include <cstdio>
#include <cstdlib>

// STEPCAST_CHECK(condition, "what must hold") ends the process when a law that the program itself
// guarantees is broken: a bug, never a user's mistake (those are Diagnostics, see diagnostic.h).
// It stays on in optimised builds, so keep it off the innermost loops.
#define STEPCAST_CHECK(condition, message)                                                  \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      std::fprintf(stderr, "%s:%d: internal error: %s (%s)\n", __FILE__, __LINE__, message, \
                   #condition);                                                             \
      std::abort();                                                                         \
    }                                                                                       \
  } while (false)
