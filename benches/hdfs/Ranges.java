import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Reads ranges of one file by Hadoop's own client: {@code Ranges URI THREADS}, then lines {@code BYTES COUNT} on the
 * standard input. Each is answered, when all threads together have read COUNT ranges of BYTES, by a line of JSON.
 * A stream is opened once and read by all threads, as positioned reads allow.
 */
public final class Ranges {
  /** Neighbours are read by no two threads one after the other; any count of ranges here is no multiple of it. */
  private static final long STRIDE = 7919;

  public static void main(String[] arguments) throws Exception {
    Path path = new Path(arguments[0]);
    int threads = Integer.parseInt(arguments[1]);
    FileSystem fs = FileSystem.get(URI.create(arguments[0]), new Configuration());
    long length = fs.getFileStatus(path).getLen();
    try (FSDataInputStream in = fs.open(path)) {
      BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
      for (String line = commands.readLine(); line != null; line = commands.readLine()) {
        String[] words = line.split(" ");
        answer(in, length, Integer.parseInt(words[0]), Integer.parseInt(words[1]), threads);
      }
    }
  }

  private static void answer(FSDataInputStream in, long length, int bytes, int count, int threads)
      throws Exception {
    long ranges = length / bytes;
    AtomicInteger next = new AtomicInteger();
    AtomicInteger failed = new AtomicInteger();
    var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = process.getProcessCpuTime();
    long began = System.nanoTime();
    List<Thread> readers = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      Thread reader =
          new Thread(
              () -> {
                try {
                  for (int n = next.getAndIncrement(); n < count; n = next.getAndIncrement()) {
                    byte[] buffer = new byte[bytes];
                    in.readFully(n * STRIDE % ranges * bytes, buffer);
                  }
                } catch (Exception e) {
                  e.printStackTrace();
                  failed.incrementAndGet();
                }
              });
      reader.start();
      readers.add(reader);
    }
    for (Thread reader : readers) {
      reader.join();
    }
    double seconds = (System.nanoTime() - began) / 1e9;
    double cpuSeconds = (process.getProcessCpuTime() - cpu) / 1e9;
    System.out.printf(
        "{\"seconds\":%f,\"bytes\":%d,\"rows\":%d,\"cpu_s\":%f}%n",
        seconds, (long) bytes * count, failed.get() == 0 ? count : 0, cpuSeconds);
    System.out.flush();
  }
}
