#pragma once

// Messages that carry file descriptors between processes of one machine, over Unix sockets. Needs nothing but the C
// library: programs inside the sandbox, which link none of ours, use it too.

#include <sys/socket.h>
#include <sys/uio.h>
#include <cerrno>
#include <cstring>

namespace hone {

inline constexpr int kMaxDescriptors = 8;  // of one message

/// Sends a message with copies of `count` descriptors. Bytes sent, which on a stream may be fewer, or -1 with errno.
/// Raises no SIGPIPE.
inline ssize_t SendMessage(int socket, const void* data, size_t bytes, const int* fds = nullptr, int count = 0) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  iovec part = {const_cast<void*>(data), bytes};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (count > kMaxDescriptors) {
    errno = EINVAL;
    return -1;
  }
  if (count > 0) {
    const size_t fd_bytes = static_cast<size_t>(count) * sizeof(int);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fd_bytes);
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(fd_bytes);
    std::memcpy(CMSG_DATA(item), fds, fd_bytes);
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

struct ReceivedMessage {
  ssize_t bytes = -1;      // 0 at the end of the conversation; -1 with errno
  bool truncated = false;  // the message was longer than the room for it
  int count = 0;
  int fds[kMaxDescriptors];  // the caller's to close; not inherited by programs it starts
};

/// Waits for a message. Descriptors beyond kMaxDescriptors are closed by the kernel.
inline ReceivedMessage ReceiveMessage(int socket, void* data, size_t bytes) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  iovec part = {data, bytes};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ReceivedMessage received;
  do {
    received.bytes = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (received.bytes < 0 && errno == EINTR);
  if (received.bytes < 0) return received;
  received.truncated = (header.msg_flags & MSG_TRUNC) != 0;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t fd_bytes = item->cmsg_len - CMSG_LEN(0);
    std::memcpy(received.fds, CMSG_DATA(item), fd_bytes);
    received.count = static_cast<int>(fd_bytes / sizeof(int));
  }
  return received;
}

}  // namespace hone
