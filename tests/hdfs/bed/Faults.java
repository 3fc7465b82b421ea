import java.io.File;
import java.io.FileNotFoundException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.server.datanode.DataNodeFaultInjector;

/**
 * What a test does to a running HDFS.
 *
 * <pre>
 * put LOCAL REMOTE          a file, or all files of a directory
 * remove PATH
 * owner USER OCTAL PATH     whose it is, and with which permissions
 * failover                  the other NameNode becomes the active one
 * stop-namenode             the active NameNode ends and its port refuses; with HA the other takes over
 * kill-datanode I           ends without a word; the NameNode still thinks it there
 * start-datanodes           those that were killed
 * freeze-reads N            the next so many reads of DataNodes are answered with silence
 * thaw                      they go on
 * refuse-reads              DataNodes send nothing over the network, as if they had too many files open
 * accept-reads              they do again
 * corrupt PATH KEEP         all replicas of all blocks of a file but so many
 * replicas PATH             how many replicas of its first block the NameNode knows
 * </pre>
 */
final class Faults {
  /** Files sent at once: small files are all waiting. */
  private static final int SENDERS = 16;

  private final MiniDFSCluster cluster;
  private final boolean ha;
  private final List<MiniDFSCluster.DataNodeProperties> killed = new ArrayList<>();
  private int active = 0;
  private Ice ice;

  Faults(MiniDFSCluster cluster, boolean ha) {
    this.cluster = cluster;
    this.ha = ha;
  }

  /** Does what a line says; what it returns is part of the answer. */
  String obey(String[] words) throws Exception {
    switch (words[0]) {
      case "put" -> put(new File(words[1]), words[2]);
      case "remove" -> files().delete(new Path(words[1]), true);
      case "owner" -> {
        files().setPermission(new Path(words[3]), new FsPermission(words[2]));
        files().setOwner(new Path(words[3]), words[1], null);
      }
      case "failover" -> {
        cluster.transitionToStandby(active);
        activate(1 - active);
      }
      case "stop-namenode" -> {
        cluster.shutdownNameNode(active);
        if (ha) {
          activate(1 - active);
        }
      }
      case "kill-datanode" -> killed.add(cluster.stopDataNode(Integer.parseInt(words[1])));
      case "start-datanodes" -> {
        for (var node : killed) {
          cluster.restartDataNode(node, true);
        }
        killed.clear();
        cluster.waitActive(active);
      }
      case "freeze-reads" -> {
        ice = new Ice(Integer.parseInt(words[1]));
        DataNodeFaultInjector.set(ice);
      }
      case "thaw" -> ice.thawed.countDown();
      case "refuse-reads" -> DataNodeFaultInjector.set(new Crowd());
      case "accept-reads" -> DataNodeFaultInjector.set(new DataNodeFaultInjector());
      case "corrupt" -> corrupt(words[1], Integer.parseInt(words[2]));
      case "replicas" -> {
        BlockLocation[] blocks = files().getFileBlockLocations(new Path(words[1]), 0, 1);
        return String.valueOf(blocks[0].getHosts().length);
      }
      default -> throw new IllegalArgumentException("no such command");
    }
    return "";
  }

  /** Stops threads that are about to send a block. */
  private static final class Ice extends DataNodeFaultInjector {
    private final AtomicInteger left;
    private final CountDownLatch thawed = new CountDownLatch(1);

    Ice(int reads) {
      left = new AtomicInteger(reads);
    }

    // Overrides nothing before Hadoop 3.4, where nobody asks.
    public void delayGetMetaDataInputStream() {
      if (left.getAndDecrement() > 0) {
        try {
          thawed.await();
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
        }
      }
    }
  }

  /** Fails whoever is about to send a block; files are lent all the same. */
  private static final class Crowd extends DataNodeFaultInjector {
    @Override
    public void throwTooManyOpenFiles() throws FileNotFoundException {
      throw new FileNotFoundException("Too many open files");
    }
  }

  private DistributedFileSystem files() throws Exception {
    return cluster.getFileSystem(active);
  }

  private void activate(int index) throws Exception {
    active = index;
    cluster.transitionToActive(index);
  }

  private void put(File local, String remote) throws Exception {
    DistributedFileSystem fs = files();
    if (local.isFile()) {
      fs.copyFromLocalFile(false, true, new Path(local.getPath()), new Path(remote));
      return;
    }
    fs.mkdirs(new Path(remote));
    ExecutorService pool = Executors.newFixedThreadPool(SENDERS);
    List<Future<Void>> sent = new ArrayList<>();
    for (File file : local.listFiles()) {
      sent.add(pool.submit((Callable<Void>) () -> {
        put(file, remote + "/" + file.getName());
        return null;
      }));
    }
    for (Future<Void> one : sent) {
      one.get();
    }
    pool.shutdown();
  }

  private void corrupt(String path, int keep) throws Exception {
    long length = files().getFileStatus(new Path(path)).getLen();
    var blocks = files().getClient().getLocatedBlocks(path, 0, length).getLocatedBlocks();
    for (LocatedBlock block : blocks) {
      int kept = 0;
      for (int i = 0; i < cluster.getDataNodes().size(); i++) {
        File replica = cluster.getBlockFile(i, block.getBlock());
        if (replica != null && kept++ >= keep) {
          rot(replica);
        }
      }
    }
  }

  /** Changes a byte under every checksum, so that whoever reads anything of it notices. */
  private static void rot(File replica) throws Exception {
    byte[] bytes = Files.readAllBytes(replica.toPath());
    for (int i = 0; i < bytes.length; i += 512) {
      bytes[i] ^= 1;
    }
    Files.write(replica.toPath(), bytes);
  }
}
