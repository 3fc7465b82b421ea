import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.EditLogFileOutputStream;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.minikdc.MiniKdc;
import org.apache.hadoop.net.unix.DomainSocket;
import org.apache.hadoop.security.Credentials;

/**
 * A real HDFS in one process: a NameNode, or an HA pair, and DataNodes, on ports of their own choice.
 *
 * <p>When everything answers it prints one line of JSON: where it is, the directory with the client's
 * configuration, its addresses, and with Kerberos the principals and their keytabs. Then it takes the commands of
 * {@link Faults}, one a line, answers each with a line, and ends when its standard input does.
 */
public final class Bed {
  private static final String SERVICE = "hdfs/localhost";
  private static final String USER = "gateway/localhost";
  private static final String NAMESERVICE = "ns1";
  /** Smallest Reed-Solomon policy: any 3 of 5 DataNodes hold the data. */
  private static final String POLICY = "RS-3-2-1024k";

  private boolean ha;
  private boolean kerberos;
  private boolean erasureCoding;
  private boolean shortCircuit;
  private int dataNodes = 3;
  private File directory;
  private final Configuration server = new HdfsConfiguration();
  private final Configuration client = new Configuration(false);
  private final Map<String, Object> ready = new LinkedHashMap<>();

  public static void main(String[] arguments) throws Exception {
    try {
      new Bed().run(arguments);
      System.exit(0);
    } catch (Throwable e) {
      e.printStackTrace();
      System.exit(1);
    }
  }

  private void run(String[] arguments) throws Exception {
    read(arguments);
    String host = kerberos ? "localhost" : "127.0.0.1";
    if (kerberos) {
      secure();
    }
    if (shortCircuit) {
      lend();
    }
    // A bed's data need not survive it, and a slow disk would be most of what a test waits for.
    EditLogFileOutputStream.setShouldSkipFsyncForTesting(true);
    // How long a writer waits before it asks again whether its block has arrived.
    server.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "5");
    // Each wait is twice the one before: 20 s in all, for a machine that does much else.
    server.set("dfs.client.block.write.locateFollowingBlock.retries", "12");
    server.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(directory, "data").getPath());
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(server).numDataNodes(dataNodes);
    if (ha) {
      builder.nnTopology(MiniDFSNNTopology.simpleHATopology(2));
    }
    MiniDFSCluster cluster = builder.build();
    cluster.waitActive();
    if (ha) {
      cluster.transitionToActive(0);
    }

    String uri = "hdfs://" + (ha ? NAMESERVICE : host + ":" + cluster.getNameNodePort(0));
    List<String> nameNodes = new ArrayList<>();
    for (int i = 0; i < cluster.getNumNameNodes(); i++) {
      nameNodes.add(host + ":" + cluster.getNameNodePort(i));
    }
    configureClient(uri, nameNodes);
    prepare(cluster);

    ready.put("uri", uri);
    ready.put("classpath", System.getProperty("java.class.path"));
    ready.put("pid", ProcessHandle.current().pid());
    ready.put("conf", new File(directory, "conf").getPath());
    ready.put("namenodes", nameNodes);
    List<String> addresses = new ArrayList<>();
    for (DataNode node : cluster.getDataNodes()) {
      addresses.add(node.getXferAddress().getAddress().getHostAddress() + ":" + node.getXferPort());
    }
    ready.put("datanodes", addresses);
    say(json(ready));

    Faults faults = new Faults(cluster, ha);
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      try {
        say(("ok " + faults.obey(line.trim().split(" +"))).trim());
      } catch (Throwable e) {
        e.printStackTrace();
        say("error " + e.toString().replace('\n', ' '));
      }
    }
    cluster.shutdown();
  }

  private void read(String[] arguments) {
    for (int i = 0; i < arguments.length; i++) {
      switch (arguments[i]) {
        case "--ha" -> ha = true;
        case "--kerberos" -> kerberos = true;
        case "--short-circuit" -> shortCircuit = true;
        case "--erasure-coding" -> erasureCoding = true;
        case "--datanodes" -> dataNodes = Integer.parseInt(arguments[++i]);
        case "-D" -> {
          String[] pair = arguments[++i].split("=", 2);
          server.set(pair[0], pair[1]);
        }
        default -> directory = new File(arguments[i]).getAbsoluteFile();
      }
    }
    if (directory == null) {
      throw new IllegalArgumentException("name a directory to keep the data in");
    }
    if (erasureCoding) {
      dataNodes = Math.max(dataNodes, 5);
    }
    String me = System.getProperty("user.name");
    for (String user : List.of(me, "gateway")) {
      server.set("hadoop.proxyuser." + user + ".hosts", "*");
      server.set("hadoop.proxyuser." + user + ".users", "*");
    }
  }

  /** Kerberos for everybody, and data encrypted on its way from the DataNodes. */
  private void secure() throws Exception {
    MiniKdc kdc = new MiniKdc(MiniKdc.createConf(), new File(directory, "kdc"));
    kdc.start();
    File keytab = new File(directory, "hdfs.keytab");
    File userKeytab = new File(directory, "gateway.keytab");
    kdc.createPrincipal(keytab, SERVICE, "HTTP/localhost");
    kdc.createPrincipal(userKeytab, USER);
    String service = SERVICE + "@" + kdc.getRealm();
    for (Configuration both : List.of(server, client)) {
      both.set("hadoop.security.authentication", "kerberos");
      both.set("hadoop.security.authorization", "true");
      both.set("hadoop.rpc.protection", "privacy");
      both.set("dfs.data.transfer.protection", "privacy");
      both.set("dfs.encrypt.data.transfer.cipher.suites", "AES/CTR/NoPadding");
      both.set("dfs.namenode.kerberos.principal", service);
      both.set("dfs.datanode.kerberos.principal", service);
    }
    server.set("dfs.namenode.keytab.file", keytab.getPath());
    server.set("dfs.datanode.keytab.file", keytab.getPath());
    server.set("dfs.web.authentication.kerberos.principal", "HTTP/localhost@" + kdc.getRealm());
    server.set("dfs.web.authentication.kerberos.keytab", keytab.getPath());
    server.set("dfs.block.access.token.enable", "true");
    server.set("ignore.secure.ports.for.testing", "true");
    server.set("hadoop.security.auth_to_local", "RULE:[2:$1]\nRULE:[1:$1]\nDEFAULT");
    ready.put("krb5_conf", kdc.getKrb5conf().getPath());
    ready.put("principal", USER + "@" + kdc.getRealm());
    ready.put("keytab", userKeytab.getPath());
    ready.put("tokens", new File(directory, "tokens").getPath());
  }

  /** DataNodes lend their files; that clients read them is theirs to say. */
  private void lend() {
    String sockets = new File(directory, "datanode._PORT").getPath();
    // The directories above are as a test has them, and nobody else is on its machine.
    DomainSocket.disableBindPathValidation();
    server.set("dfs.client.read.shortcircuit", "true");
    server.set("dfs.domain.socket.path", sockets);
    ready.put("sockets", sockets);
  }

  private void configureClient(String uri, List<String> nameNodes) throws Exception {
    client.set("fs.defaultFS", uri);
    if (ha) {
      client.set("dfs.nameservices", NAMESERVICE);
      client.set("dfs.ha.namenodes." + NAMESERVICE, "nn1,nn2");
      for (int i = 0; i < nameNodes.size(); i++) {
        client.set("dfs.namenode.rpc-address." + NAMESERVICE + ".nn" + (i + 1), nameNodes.get(i));
      }
      client.set(
          "dfs.client.failover.proxy.provider." + NAMESERVICE,
          "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider");
    }
    File conf = new File(directory, "conf");
    conf.mkdirs();
    try (OutputStream out = new FileOutputStream(new File(conf, "core-site.xml"))) {
      client.writeXml(out);
    }
  }

  /** Gives the user its place: the root is everybody's, /ec is erasure-coded, a token waits in a file. */
  private void prepare(MiniDFSCluster cluster) throws Exception {
    DistributedFileSystem fs = cluster.getFileSystem(0);
    fs.setPermission(new Path("/"), new FsPermission((short) 0777));
    if (erasureCoding) {
      fs.enableErasureCodingPolicy(POLICY);
      fs.mkdirs(new Path("/ec"));
      fs.setErasureCodingPolicy(new Path("/ec"), POLICY);
    }
    if (kerberos) {
      var token = fs.getDelegationToken("gateway");
      if (ha) {
        token.setService(new Text("ha-hdfs:" + NAMESERVICE));
      }
      Credentials credentials = new Credentials();
      credentials.addToken(token.getService(), token);
      try (var out = new DataOutputStream(new FileOutputStream(new File(directory, "tokens")))) {
        credentials.writeTokenStorageToStream(out, Credentials.SerializedFormat.WRITABLE);
      }
    }
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  /** Texts, numbers, and lists of texts; none of them needs escapes. */
  private static String json(Map<String, Object> fields) {
    return fields.entrySet().stream()
        .map(field -> quoted(field.getKey()) + ":" + value(field.getValue()))
        .collect(Collectors.joining(",", "{", "}"));
  }

  private static String value(Object value) {
    if (value instanceof List<?> list) {
      return list.stream().map(Bed::quoted).collect(Collectors.joining(",", "[", "]"));
    }
    return value instanceof Number ? value.toString() : quoted(value);
  }

  private static String quoted(Object text) {
    return "\"" + text + "\"";
  }
}
