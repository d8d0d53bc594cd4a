"""Notifications that leave Perdure: the channels of a process, and how a notification is sent to each kind of them."""
