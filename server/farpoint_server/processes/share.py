"""What one of several processes may use of what the settings give to the whole server."""

from farpoint_server.config.settings import Settings


def share(settings: Settings, count: int) -> Settings:
    """Settings of each of `count` processes.

    What bounds memory is divided: points and bytes in flight, and messages that are received at a
    time; but one request of the largest size stays possible. Memory of devices and threads are
    divided where the devices are known. What bounds calls and connections holds for each
    process, since the kernel deals connections out by chance.
    """
    if count == 1:
        return settings
    divided = {
        "processes": count,
        "max_points_in_flight": max(
            settings.max_points_in_flight // count, settings.max_request_points
        ),
        "max_bytes_in_flight": max(
            settings.max_bytes_in_flight // count, settings.max_message_bytes
        ),
        "receive_turns": max(settings.receive_turns // count, 1),
    }
    return settings.model_copy(update=divided)
