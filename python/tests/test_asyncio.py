"""Objects and images for asyncio."""

import asyncio
import os
import time
import unittest

from ground import conf
from loligo import aio, rados


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.name = "python-aio-{0}-{1}".format(os.getpid(), time.monotonic_ns())
        self.cluster = await aio.connect(conffile=conf())
        await self.cluster.create_pool(self.name)
        self.pool = await self.cluster.open_ioctx(self.name)

    async def asyncTearDown(self):
        self.pool.close()
        await self.cluster.delete_pool(self.name)
        await self.cluster.shutdown()

    async def test_data(self):
        await self.pool.write_full("a", b"hello")
        self.assertEqual(await self.pool.read("a"), b"hello")
        self.assertEqual((await self.pool.stat("a"))[0], 5)
        with self.assertRaises(rados.ObjectNotFound):
            await self.pool.read("none")
        await self.pool.set_xattr("a", "one", b"1")
        self.assertEqual(await self.pool.get_xattrs("a"), {"one": b"1"})
        values = {"key{0}".format(number): b"x" * 2000 for number in range(1500)}
        await self.pool.set_omap("a", values)
        self.assertEqual(await self.pool.get_omap("a"), values)
        self.assertEqual([name async for name in self.pool.list_objects()], ["a"])

    async def test_many_at_once_keep_their_order(self):
        await asyncio.gather(*(self.pool.append("log", b"%03d" % number) for number in range(500)))
        wanted = b"".join(b"%03d" % number for number in range(500))
        self.assertEqual(await self.pool.read("log", 0), wanted)

    async def test_a_loop_goes_on_meanwhile(self):
        await self.pool.write_full("slow", b"")
        asked = asyncio.Event()
        answer = asyncio.Event()

        async def tell(data):
            asked.set()
            await answer.wait()
            return b"to " + data

        async with await self.pool.watch("slow", tell):
            notified = asyncio.ensure_future(self.pool.notify("slow", b"me", 100000))
            await asked.wait()
            self.assertFalse(notified.done())
            await self.pool.write_full("other", b"meanwhile")
            answer.set()
            ((_, _, said),) = await notified
            self.assertEqual(said, b"to me")

    async def test_a_cancelled_task_waits_no_longer(self):
        await self.pool.write_full("slow", b"")
        never = asyncio.Event()
        watch = await self.pool.watch("slow", lambda data: never.wait())
        waiting = asyncio.ensure_future(self.pool.notify("slow", b"", 100000))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        never.set()
        await watch.close()

    async def test_images(self):
        await self.pool.create_image("image", 8 << 20)
        async with await self.pool.open_image("image") as image:
            await asyncio.gather(*(image.write(bytes([n]) * 512, 512 * n) for n in range(64)))
            self.assertEqual(await image.read(512 * 7, 512), bytes([7]) * 512)
            await image.create_snap("a")
            await image.write(b"later", 0)
            (snap,) = await image.list_snaps()
            self.assertEqual(snap["name"], "a")
            self.assertTrue(await image.diff(0, 8 << 20, "a"))
            await image.rollback_to_snap("a")
            self.assertEqual(await image.read(0, 5), b"\0" * 5)
            await image.remove_snap("a")
            self.assertEqual(await image.size(), 8 << 20)
        self.assertEqual(await self.pool.list_images(), ["image"])
        await self.pool.remove_image("image")

    async def test_commands(self):
        result, output, _ = await self.cluster.mon_command('{"prefix": "mon dump", "format": "json"}')
        self.assertEqual(result, 0)
        self.assertIn(b"epoch", output)
        self.assertIn(self.name, self.cluster.list_pools())


class Loops(unittest.TestCase):
    def test_several_loops_one_after_the_other(self):
        async def ask():
            async with aio.connect(conffile=conf()) as cluster:
                return (await cluster.get_cluster_stats())["kb"]

        self.assertEqual(len({asyncio.run(ask()) for _ in range(3)}), 1)


if __name__ == "__main__":
    unittest.main()
