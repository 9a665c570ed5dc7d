/* Whether this is a build under AddressSanitizer or ThreadSanitizer. Their shadow takes terabytes
 * of address space, which no limit can allow for, and the leak check forks and traces at exit. */
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CV_UNDER_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CV_UNDER_SANITIZER 1
#endif
#ifndef CV_UNDER_SANITIZER
#define CV_UNDER_SANITIZER 0
#endif
