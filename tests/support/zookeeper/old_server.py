"""A ZooKeeper that looks older than 3.6: a proxy in front of a real one treats what came then as those servers do."""

import asyncio
import contextlib
import struct

MULTI_READ = 22
ADD_WATCH = 106
UNIMPLEMENTED = -6
INT = struct.Struct("!i")


@contextlib.asynccontextmanager
async def server_without_multiread(host, port):
    """Yields `host:port` of a proxy to the server at `host:port`, and a list of the operations that came through.

    Servers before 3.6 answer an operation they do not know with "unimplemented" and close the connection.
    """
    operations = []
    tasks = set()

    async def serve(client_reader, client_writer):
        tasks.add(asyncio.current_task())
        server_reader, server_writer = await asyncio.open_connection(host, port)
        answers = asyncio.ensure_future(copy(server_reader, client_writer))
        try:
            server_writer.write(await _frame(client_reader))  # the connect request has no operation
            while True:
                frame = await _frame(client_reader)
                xid, operation = struct.unpack_from("!ii", frame, 4)
                operations.append(operation)
                if operation in (MULTI_READ, ADD_WATCH):
                    client_writer.write(struct.pack("!iiqi", 16, xid, 0, UNIMPLEMENTED))
                    return
                server_writer.write(frame)
        except asyncio.IncompleteReadError:
            pass
        finally:
            answers.cancel()
            client_writer.close()
            server_writer.close()

    proxy = await asyncio.start_server(serve, host, 0)
    address = proxy.sockets[0].getsockname()
    try:
        yield f"{address[0]}:{address[1]}", operations
    finally:
        proxy.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _frame(reader):
    head = await reader.readexactly(INT.size)
    return head + await reader.readexactly(INT.unpack(head)[0])


async def copy(reader, writer):
    """Forward what comes, to its end."""
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
