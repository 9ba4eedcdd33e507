#pragma once

#include <cstdio>
#include <cstdlib>

// STEPCAST_CHECK(condition, "what must hold") ends the process when an invariant of the program
// itself is broken. That is a bug, never a user's mistake (see diagnostic.h). It stays on in
// optimized builds, so keep it out of the innermost loops.
#define STEPCAST_CHECK(condition, message)                                                  \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      std::fprintf(stderr, "%s:%d: internal error: %s (%s)\n", __FILE__, __LINE__, message, \
                   #condition);                                                             \
      std::abort();                                                                         \
    }                                                                                       \
  } while (false)
